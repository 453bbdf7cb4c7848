#include "src/grad_probe/measure.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "src/kernels/convert.h"
#include "src/kernels/crc32.h"
#include "src/kernels/signs.h"
#include "src/kernels/stats.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"

namespace msprobe::grad_probe {
namespace {

// Beyond so many bounds a search per element is quicker than a count per bound.
constexpr size_t kCountedBounds = 16;

// What is kept between the blocks of one gradient, and from gradient to gradient.
struct Scratch {
  std::vector<std::byte> gathered;
  std::vector<float> floats;
  std::vector<double> doubles;
};

template <typename Value>
void CountIntervals(std::span<const Value> values, std::span<const Bound> bounds,
                    std::vector<uint64_t>& intervals) {
  if (bounds.size() > kCountedBounds) {
    for (const Value value : values) {
      // The first bound that is not below; NaN is at most none of them.
      const auto at = std::partition_point(bounds.begin(), bounds.end(), [&](const Bound& bound) {
        return !(static_cast<double>(value) <= bound.value);
      });
      ++intervals[static_cast<size_t>(at - bounds.begin())];
    }
    return;
  }
  uint64_t before = 0;
  for (size_t i = 0; i < bounds.size(); ++i) {
    const uint64_t at_most = kernels::CountAtMost(values, static_cast<Value>(bounds[i].value));
    intervals[i] += at_most - before;
    before = at_most;
  }
  intervals[bounds.size()] += values.size() - before;
}

}  // namespace

Result<Numbers> Measure(const TensorView& gradient, Level level, std::span<const Bound> bounds,
                        std::byte* signs) {
  const DType dtype = gradient.dtype;
  if (GetDTypeInfo(dtype).kind != DTypeKind::kFloat) {
    return UnsupportedError(
        fmt::format("gradients of {} have no direction", GetDTypeInfo(dtype).name));
  }
  thread_local Scratch scratch;
  Numbers numbers;
  numbers.element_count = static_cast<uint64_t>(gradient.element_count());
  numbers.intervals.assign(level == Level::kL2 ? bounds.size() + 1 : 0, 0);
  kernels::StatsPartial total;
  const auto use = [&](auto values, size_t first) {
    using Value = std::remove_const_t<typename decltype(values)::element_type>;
    const std::span<const Value> block = values;
    if (signs != nullptr) {
      kernels::PutPositive(block, {signs + first, block.size()});
    }
    if (level == Level::kL2) {
      CountIntervals(block, bounds, numbers.intervals);
    }
  };
  tensor::ForEachBlock(gradient, tensor::kSumBlockElements, scratch.gathered,
                       [&](std::span<const std::byte> block, size_t first) {
                         kernels::MergeStats(total, kernels::StatsOfBlock(dtype, block));
                         const size_t count = block.size() / DTypeSize(dtype);
                         if (dtype == DType::kFloat64 && level != Level::kL0) {
                           scratch.doubles.resize(count);
                           kernels::WidenToDouble(dtype, block, scratch.doubles);
                           use(std::span<const double>(scratch.doubles), first);
                           return;
                         }
                         scratch.floats.resize(count);
                         kernels::WidenToFloat(dtype, block, scratch.floats);
                         if (level == Level::kL0) {
                           numbers.crc32 = kernels::Crc32(std::as_bytes(std::span(scratch.floats)),
                                                          numbers.crc32);
                         } else {
                           use(std::span<const float>(scratch.floats), first);
                         }
                       });
  const kernels::TensorStats stats = kernels::FinishStats(total);
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  const auto rounded = [&](double value) {
    return tensor::RoundToDType(is_half ? dtype : DType::kFloat32, value);
  };
  numbers.max = rounded(stats.max);
  numbers.min = rounded(stats.min);
  numbers.norm = rounded(stats.norm);
  numbers.zero_count = stats.zero_count;
  return numbers;
}

}  // namespace msprobe::grad_probe
