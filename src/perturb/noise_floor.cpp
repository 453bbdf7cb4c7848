#include "src/perturb/noise_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "src/kernels/convert.h"
#include "src/perturb/perturbation.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_limits.h"

namespace msprobe::perturb {
namespace {

// P(|T| < t): 26.7.3 for odd degrees, 26.7.4 for even ones.
double Within(double t, uint32_t degrees) {
  const double n = degrees;
  const double angle = std::atan(t / std::sqrt(n));
  const double cosine = std::cos(angle);
  const bool is_odd = degrees % 2 == 1;
  double term = is_odd ? cosine : 1;
  double sum = degrees == 1 ? 0 : term;
  for (uint32_t k = is_odd ? 3 : 2; k + 1 < degrees; k += 2) {
    term *= cosine * cosine * (k - 1) / k;
    sum += term;
  }
  const double odd_sum = 2 / std::numbers::pi * (angle + std::sin(angle) * sum);
  return is_odd ? odd_sum : std::sin(angle) * sum;
}

}  // namespace

double StudentQuantile(double confidence, uint32_t degrees) {
  double low = 0;
  double high = 1;
  while (Within(high, degrees) < confidence && high < 1e300) high *= 2;
  // Until both are neighbours.
  for (double middle = (low + high) / 2; middle > low && middle < high; middle = (low + high) / 2) {
    (Within(middle, degrees) < confidence ? low : high) = middle;
  }
  return high;
}

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

int64_t SamplesPerStep(int64_t calls, int64_t preheat_step, int64_t max_sample) {
  if (calls < 1 || preheat_step < 1) return 0;
  return std::min((calls - 1) / preheat_step + 1, max_sample);
}

bool IsSampled(int64_t number, int64_t calls, int64_t preheat_step, int64_t max_sample,
               int64_t step) {
  const int64_t samples = SamplesPerStep(calls, preheat_step, max_sample);
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t remainder = (preheat_step * i + step) % calls;
    if ((remainder == 0 ? calls : remainder) == number) return true;
  }
  return false;
}

void Adapt(PreheatThreshold& threshold, std::span<const double> consistent,
           std::span<const double> inconsistent, double least) {
  if (!threshold.adapts || (consistent.empty() && inconsistent.empty())) return;
  double next = threshold.value;
  if (consistent.empty()) {
    next = std::min(*std::ranges::min_element(inconsistent), next);
    threshold.adapts = false;
  } else if (inconsistent.empty()) {
    const double above = next - 1;
    next = *std::ranges::max_element(consistent) > next ? 1 + above * 2 : 1 + above / 2;
  } else {
    const double bad = *std::ranges::min_element(inconsistent);
    if (bad > *std::ranges::max_element(consistent)) {
      next = std::min(bad, next);
      threshold.adapts = false;
    }
  }
  threshold.value = std::max(next, least);
}

}  // namespace msprobe::perturb
