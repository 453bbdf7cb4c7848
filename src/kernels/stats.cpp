#include "src/kernels/stats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "src/kernels/convert.h"
#include "src/kernels/kernel_table.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_limits.h"

namespace msprobe::kernels {
namespace {

using internal::KernelTable;
using internal::kGroupElements;
using internal::NonFiniteCounts;
using internal::SmallLanes;
using internal::SmallRule;
using internal::StatsLanes;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Elements of the conversion buffer, which stays in the L1 cache; a multiple of every lane count.
constexpr size_t kBufferElements = 1024;

// The loops for one representation: elements as stored, or converted to double.
struct StatsLoops {
  internal::StatsFunction KernelTable::*stats;
  internal::SmallStatsFunction KernelTable::*near;
  internal::SmallStatsFunction KernelTable::*small;
  internal::NonFiniteFunction KernelTable::*non_finite;
  size_t element_bytes;
};
constexpr StatsLoops kFloat32Loops = {&KernelTable::stats_float32, &KernelTable::near_float32,
                                      &KernelTable::small_float32, &KernelTable::non_finite_float32,
                                      4};
constexpr StatsLoops kFloat16Loops = {&KernelTable::stats_float16, &KernelTable::near_float16,
                                      &KernelTable::small_float16, &KernelTable::non_finite_float16,
                                      2};
constexpr StatsLoops kBFloat16Loops = {&KernelTable::stats_bfloat16, &KernelTable::near_bfloat16,
                                       &KernelTable::small_bfloat16,
                                       &KernelTable::non_finite_bfloat16, 2};
constexpr StatsLoops kFloat64Loops = {&KernelTable::stats_float64, &KernelTable::near_float64,
                                      &KernelTable::small_float64, &KernelTable::non_finite_float64,
                                      8};

struct Run {
  StatsLanes lanes{.max = -kInfinity, .min = kInfinity};
  NonFiniteCounts counts{.max = -kInfinity, .min = kInfinity};
  SmallLanes small{.smallest_nonzero = kInfinity};
};

// The bound of the loops that work in Value.
template <class Value>
SmallRule RuleFor(DType dtype, double zero_below) {
  using Bits = std::conditional_t<sizeof(Value) == 4, uint32_t, uint64_t>;
  SmallRule rule;
  if (zero_below != 0) {
    rule.zero_below_bits = zero_below > 0 ? std::bit_cast<Bits>(static_cast<Value>(zero_below)) : 0;
  }
  rule.normal_bits =
      std::bit_cast<Bits>(static_cast<Value>(tensor::FormatOf(tensor::PartOf(dtype)).normal));
  return rule;
}

template <class Function, class... Targets>
void VectorsThenRest(Function KernelTable::*function, size_t element_bytes, const std::byte* data,
                     size_t count, Targets&... targets) {
  const size_t grouped = count / kGroupElements * kGroupElements;
  (internal::ActiveTable().*function)(data, grouped, targets...);
  (internal::PlainTable().*function)(data + grouped * element_bytes, count - grouped, targets...);
}

void StatsLoop(const StatsLoops& loops, const std::byte* data, size_t count,
               const SmallValues* small, const SmallRule& rule, Run& run) {
  if (small == nullptr) {
    VectorsThenRest(loops.stats, loops.element_bytes, data, count, run.lanes);
  } else {
    VectorsThenRest(small->magnitudes ? loops.small : loops.near, loops.element_bytes, data, count,
                    rule, run.lanes, run.small);
  }
}

// The sum of squares is finite only if every element is; squares that overflow merely cost the
// second look.
bool MayHoldNonFinite(const StatsLanes& lanes) {
  double total = 0;
  for (const double lane : lanes.square_sum) {
    total += lane;
  }
  return !std::isfinite(total);
}

double SumOfLanes(const double (&lanes)[internal::kStatsLanes]) {
  double sums[internal::kStatsLanes];
  std::copy_n(lanes, internal::kStatsLanes, sums);
  for (size_t width = internal::kStatsLanes / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) {
      sums[i] += sums[i + width];
    }
  }
  return sums[0];
}

StatsPartial Finish(const Run& run, size_t element_count, bool looked_twice) {
  StatsPartial partial;
  partial.element_count = element_count;
  partial.zero_count = run.lanes.zero_count;
  partial.subnormal_count = run.small.subnormal_count;
  partial.smallest_nonzero = run.small.smallest_nonzero;
  partial.sum = SumOfLanes(run.lanes.sum);
  partial.square_sum = SumOfLanes(run.lanes.square_sum);
  partial.max = run.lanes.max;
  partial.min = run.lanes.min;
  if (looked_twice) {
    partial.max = run.counts.max;
    partial.min = run.counts.min;
    partial.nan_count = run.counts.nan_count;
    partial.positive_inf_count = run.counts.positive_inf_count;
    partial.negative_inf_count = run.counts.negative_inf_count;
  }
  // Whether +0 or -0 wins depends on the order of the lanes: report +0.
  partial.max += 0.0;
  partial.min += 0.0;
  // One NaN, whatever its sign and payload.
  partial.sum = std::isnan(partial.sum) ? kNan : partial.sum;
  partial.square_sum = std::isnan(partial.square_sum) ? kNan : partial.square_sum;
  return partial;
}

StatsPartial StatsOfStored(const StatsLoops& loops, const std::byte* data, size_t count,
                           const SmallValues* small, const SmallRule& rule) {
  Run run;
  StatsLoop(loops, data, count, small, rule, run);
  const bool look_twice = MayHoldNonFinite(run.lanes);
  if (look_twice) {
    VectorsThenRest(loops.non_finite, loops.element_bytes, data, count, run.counts);
  }
  return Finish(run, count, look_twice);
}

// Everything else goes through a buffer of doubles; whether an element is finite is looked at right
// there.
StatsPartial StatsOfConverted(DType dtype, std::span<const std::byte> data, size_t count,
                              const SmallValues* small, const SmallRule& rule) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  std::array<double, kBufferElements> buffer;
  const std::byte* buffer_bytes = reinterpret_cast<const std::byte*>(buffer.data());
  const bool may_be_non_finite = info.kind == DTypeKind::kFloat || info.kind == DTypeKind::kComplex;
  Run run;
  for (size_t first = 0; first < count; first += kBufferElements) {
    const size_t size = std::min(kBufferElements, count - first);
    const std::span<double> out = std::span(buffer).first(size);
    const std::span<const std::byte> in = data.subspan(first * info.size_bytes);
    if (info.kind == DTypeKind::kComplex) {
      ComplexMagnitudes(dtype, in, out);
    } else {
      WidenToDouble(dtype, in, out);
    }
    StatsLoop(kFloat64Loops, buffer_bytes, size, small, rule, run);
    if (may_be_non_finite) {
      VectorsThenRest(kFloat64Loops.non_finite, sizeof(double), buffer_bytes, size, run.counts);
    }
  }
  return Finish(run, count, may_be_non_finite);
}

StatsPartial StatsOfRun(DType dtype, std::span<const std::byte> data, const SmallValues* small,
                        const SmallRule& float_rule, const SmallRule& double_rule) {
  const size_t count = data.size() / DTypeSize(dtype);
  if (count == 0) {
    return {};
  }
  switch (dtype) {
    case DType::kFloat32:
      return StatsOfStored(kFloat32Loops, data.data(), count, small, float_rule);
    case DType::kFloat16:
      return StatsOfStored(kFloat16Loops, data.data(), count, small, float_rule);
    case DType::kBFloat16:
      return StatsOfStored(kBFloat16Loops, data.data(), count, small, float_rule);
    case DType::kFloat64:
      return StatsOfStored(kFloat64Loops, data.data(), count, small, double_rule);
    default:
      return StatsOfConverted(dtype, data, count, small, double_rule);
  }
}

StatsPartial StatsOfRuns(DType dtype, std::span<const std::byte> data, const SmallValues* small) {
  SmallRule float_rule;
  SmallRule double_rule;
  if (small != nullptr) {
    float_rule = RuleFor<float>(dtype, small->zero_below);
    double_rule = RuleFor<double>(dtype, small->zero_below);
  }
  const size_t run_bytes = tensor::kSumBlockElements * DTypeSize(dtype);
  if (data.size() <= run_bytes) {
    return StatsOfRun(dtype, data, small, float_rule, double_rule);
  }
  StatsPartial total;
  for (size_t first = 0; first < data.size(); first += run_bytes) {
    MergeStats(total,
               StatsOfRun(dtype, data.subspan(first, std::min(run_bytes, data.size() - first)),
                          small, float_rule, double_rule));
  }
  return total;
}

}  // namespace

StatsPartial StatsOfBlock(DType dtype, std::span<const std::byte> data) {
  return StatsOfRuns(dtype, data, nullptr);
}

StatsPartial StatsOfBlock(DType dtype, std::span<const std::byte> data, const SmallValues& small) {
  return StatsOfRuns(dtype, data, &small);
}

void MergeStats(StatsPartial& into, const StatsPartial& next) {
  if (next.element_count == 0) {
    return;
  }
  if (into.element_count == 0) {
    into = next;
    return;
  }
  into.element_count += next.element_count;
  into.max = std::max(into.max, next.max);
  into.min = std::min(into.min, next.min);
  into.sum += next.sum;
  into.square_sum += next.square_sum;
  into.nan_count += next.nan_count;
  into.positive_inf_count += next.positive_inf_count;
  into.negative_inf_count += next.negative_inf_count;
  into.zero_count += next.zero_count;
  into.subnormal_count += next.subnormal_count;
  into.smallest_nonzero = std::min(into.smallest_nonzero, next.smallest_nonzero);
}

TensorStats FinishStats(const StatsPartial& total) {
  TensorStats stats;
  stats.element_count = total.element_count;
  stats.nan_count = total.nan_count;
  stats.positive_inf_count = total.positive_inf_count;
  stats.negative_inf_count = total.negative_inf_count;
  stats.zero_count = total.zero_count;
  if (total.element_count == 0) {
    stats.max = kNan;
    stats.min = kNan;
    stats.mean = kNan;
    stats.norm = 0;
    return stats;
  }
  if (total.nan_count != 0) {
    stats.max = kNan;
    stats.min = kNan;
    stats.mean = kNan;
    stats.norm = kNan;
    return stats;
  }
  stats.max = total.max;
  stats.min = total.min;
  stats.mean = total.sum / static_cast<double>(total.element_count);
  stats.norm = std::sqrt(total.square_sum);
  return stats;
}

TensorStats ComputeStats(DType dtype, std::span<const std::byte> data) {
  return FinishStats(StatsOfBlock(dtype, data));
}

}  // namespace msprobe::kernels
