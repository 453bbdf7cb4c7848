#include "src/perturb/noise_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "src/kernels/convert.h"
#include "src/perturb/stochastic_rounding.h"
#include "src/perturb/student.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_limits.h"

namespace msprobe::perturb {
namespace {

struct Sums {
  double mean_squares = 0;       // of |mean|^2
  double deviation_squares = 0;  // of sum_k |x_k - mean|^2
  uint64_t nonfinite_count = 0;
};

// Element by element over `count` results that lie behind one another, `elements` of each.
void AddBlock(std::span<const double> values, size_t count, size_t elements, Sums& sums) {
  for (size_t i = 0; i < elements; ++i) {
    // Differences from the first: what all have in common does not round.
    const double first = values[i];
    double shift = 0;
    size_t finite = 0;
    for (size_t k = 0; k < count; ++k) {
      const double value = values[k * elements + i];
      finite += std::isfinite(value) ? 1 : 0;
      shift += value - first;
    }
    if (finite != count) {
      sums.nonfinite_count += finite != 0 ? 1 : 0;
      continue;
    }
    shift /= static_cast<double>(count);
    const double mean = first + shift;
    sums.mean_squares += mean * mean;
    for (size_t k = 0; k < count; ++k) {
      const double deviation = values[k * elements + i] - first - shift;
      sums.deviation_squares += deviation * deviation;
    }
  }
}

}  // namespace

Result<NoiseFloor> MeasureNoiseFloor(std::span<const TensorView> results, uint64_t seed) {
  if (results.size() < 2) return UsageError("noise is measured over two results or more");
  const DType dtype = results[0].dtype;
  const double unit = tensor::FormatOf(dtype).unit;
  if (unit == 0 || DTypeSize(dtype) < 2)
    return UsageError("noise is measured of float16, bfloat16, float32 and float64");
  const auto total = static_cast<size_t>(results[0].element_count());
  for (const TensorView& result : results) {
    if (result.dtype != dtype || result.element_count() != results[0].element_count()) {
      return MismatchError("results of one call differ in dtype or shape");
    }
  }
  constexpr size_t kBlock = tensor::kCopyBlockElements;
  std::vector<std::byte> scratch;
  std::vector<std::byte> rounded(kBlock * DTypeSize(dtype));
  std::vector<double> values(results.size() * std::min(kBlock, total));
  Sums all;
  for (size_t first = 0; first < total; first += kBlock) {
    const size_t elements = std::min(kBlock, total - first);
    const std::span<std::byte> copy = std::span(rounded).first(elements * DTypeSize(dtype));
    for (size_t k = 0; k < results.size(); ++k) {
      tensor::BlockReader(results[k], scratch).ReadAndCopy(first, elements, copy.data());
      RoundStochastically(dtype, copy, seed + k, first);
      kernels::WidenToDouble(dtype, copy, std::span(values).subspan(k * elements, elements));
    }
    Sums sums;
    AddBlock(values, results.size(), elements, sums);
    all.mean_squares += sums.mean_squares;
    all.deviation_squares += sums.deviation_squares;
    all.nonfinite_count += sums.nonfinite_count;
  }
  const auto count = static_cast<double>(results.size());
  const double deviation = std::sqrt(all.deviation_squares / (count - 1));
  const double mean = std::sqrt(all.mean_squares);
  NoiseFloor floor;
  floor.nonfinite_count = all.nonfinite_count;
  const double t = StudentQuantile(kNoiseConfidence, static_cast<uint32_t>(results.size() - 1));
  floor.relative = deviation == 0 ? 0
                   : mean > 0     ? t * deviation / mean
                                  : std::numeric_limits<double>::infinity();
  if (all.nonfinite_count != 0 || std::isinf(floor.relative)) return floor;
  const double most = -std::log10(unit);
  floor.digits =
      deviation == 0 ? most : std::clamp(std::log10(std::sqrt(count) / floor.relative), 0.0, most);
  return floor;
}

}  // namespace msprobe::perturb
