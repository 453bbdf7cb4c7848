#include "src/analysis/ckpt/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace msprobe::analysis::ckpt {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The largest square that float32 rounds to zero.
constexpr double kVanishingSquare = 0x1p-150;

float ToFloat(double value) { return static_cast<float>(value); }

// What the root of a float32 sum of squares is; more precise where it neither overflows nor
// vanishes.
double Float32Norm(double square_sum) {
  const float rounded = ToFloat(square_sum);
  if (std::isinf(rounded)) {
    return kInfinity;
  }
  return rounded == 0 ? 0 : static_cast<double>(ToFloat(std::sqrt(square_sum)));
}

double Float32Norm(double square_sum, uint64_t nan_count, uint64_t inf_count) {
  return nan_count > 0 ? kNan : inf_count > 0 ? kInfinity : Float32Norm(square_sum);
}

std::optional<double> Cosine(const PairSums& sums, double norm_a, double norm_b) {
  if (norm_a == 0 && norm_b == 0) {
    return 1.0;
  }
  if (norm_a == 0 || norm_b == 0) {
    return std::nullopt;
  }
  if (sums.nan_count_a + sums.nan_count_b + sums.inf_count_a + sums.inf_count_b > 0) {
    return kNan;
  }
  const kernels::ComparePartial& finite = sums.finite;
  if (std::isinf(norm_a) || std::isinf(norm_b)) {
    // In float32 the sum of products overflows, too, or is divided by infinity.
    const float dot = ToFloat(finite.dot);
    return std::isinf(norm_a) && std::isinf(norm_b)
               ? kNan
               : static_cast<double>(std::isinf(dot) ? NAN : 0.0F);
  }
  const double cosine =
      finite.dot / (std::sqrt(finite.npu_square_sum) * std::sqrt(finite.bench_square_sum));
  return static_cast<double>(ToFloat(std::clamp(cosine, -1.0, 1.0)));
}

double Distance(const PairSums& sums) {
  if (sums.nan_count_a + sums.nan_count_b + sums.same_inf_count > 0) {
    return kNan;
  }
  return Float32Norm(sums.finite.difference_square_sum, 0, sums.inf_count_a + sums.inf_count_b);
}

// Positive, yet not more than so many squares that vanish one by one.
bool MayVanish(double square_sum, uint64_t count) {
  return square_sum > 0 && square_sum <= kVanishingSquare * static_cast<double>(count);
}

void AddRatios(const PairSums& sums, PairMetrics& metrics) {
  const double l2 = *metrics.l2;
  const auto count = static_cast<double>(sums.finite.element_count);
  metrics.norm_ratio =
      metrics.norm_a == 0 && metrics.norm_b == 0 ? 1 : metrics.norm_a / metrics.norm_b;
  metrics.relative_l2 = l2 == 0 ? 0 : l2 / metrics.norm_b;
  metrics.rms_error = count == 0 ? 0 : l2 / std::sqrt(count);
}

}  // namespace

void MergeSums(PairSums& into, const PairSums& next) {
  kernels::MergeCompare(into.finite, next.finite);
  into.nan_count_a += next.nan_count_a;
  into.nan_count_b += next.nan_count_b;
  into.inf_count_a += next.inf_count_a;
  into.inf_count_b += next.inf_count_b;
  into.same_inf_count += next.same_inf_count;
  into.exceeding_count += next.exceeding_count;
  into.equal_bits = into.equal_bits && next.equal_bits;
  into.sum_a += next.sum_a;
  into.sum_b += next.sum_b;
}

bool MayUnderflow(const PairSums& sums) {
  const kernels::ComparePartial& finite = sums.finite;
  return MayVanish(finite.npu_square_sum, finite.element_count) ||
         MayVanish(finite.bench_square_sum, finite.element_count) ||
         MayVanish(finite.difference_square_sum, finite.element_count);
}

void FlushedStep(float a, float b, kernels::ComparePartial& sums) {
  const auto product = [](float x, float y) {
    return static_cast<double>(ToFloat(static_cast<double>(x) * static_cast<double>(y)));
  };
  const bool finite_a = std::isfinite(a);
  const bool finite_b = std::isfinite(b);
  sums.npu_square_sum += finite_a ? product(a, a) : 0;
  sums.bench_square_sum += finite_b ? product(b, b) : 0;
  if (!finite_a || !finite_b) {
    return;
  }
  const float difference = a - b;
  sums.dot += product(a, b);
  sums.difference_square_sum += product(difference, difference);
}

bool LeavesDouble(const PairSums& sums) {
  constexpr double kLeast = 1e-280;  // below it squares lose digits
  const kernels::ComparePartial& finite = sums.finite;
  const bool differs = finite.different_count > 0;
  return !std::isfinite(finite.npu_square_sum) || !std::isfinite(finite.bench_square_sum) ||
         !std::isfinite(finite.difference_square_sum) || finite.npu_square_sum < kLeast ||
         finite.bench_square_sum < kLeast || (differs && finite.difference_square_sum < kLeast);
}

PairMetrics ComputeMetrics(const PairSums& sums) {
  const kernels::ComparePartial& finite = sums.finite;
  const WideSums wide = sums.wide.value_or(WideSums{
      finite.dot, finite.npu_square_sum, finite.bench_square_sum, finite.difference_square_sum});
  const auto norm = [](const ExtendedFloat& square_sum, uint64_t nan_count, uint64_t inf_count) {
    return nan_count > 0   ? kNan
           : inf_count > 0 ? kInfinity
                           : static_cast<double>(SquareRoot(square_sum));
  };
  const uint64_t not_finite =
      sums.nan_count_a + sums.nan_count_b + sums.inf_count_a + sums.inf_count_b;
  PairMetrics metrics;
  metrics.norm_a = norm(wide.square_sum_a, sums.nan_count_a, sums.inf_count_a);
  metrics.norm_b = norm(wide.square_sum_b, sums.nan_count_b, sums.inf_count_b);
  metrics.l2 =
      norm(wide.difference_square_sum, sums.nan_count_a + sums.nan_count_b + sums.same_inf_count,
           sums.inf_count_a + sums.inf_count_b);
  if (not_finite > 0) {
    metrics.cosine = kNan;
  } else if (wide.difference_square_sum == 0) {
    metrics.cosine = 1.0;
  } else if (wide.square_sum_a > 0 && wide.square_sum_b > 0) {
    const ExtendedFloat cosine =
        wide.dot / (SquareRoot(wide.square_sum_a) * SquareRoot(wide.square_sum_b));
    metrics.cosine = std::clamp(static_cast<double>(cosine), -1.0, 1.0);
  }
  AddRatios(sums, metrics);
  return metrics;
}

PairMetrics ComputeFloat32Metrics(const PairSums& sums) {
  PairMetrics metrics;
  const kernels::ComparePartial& finite = sums.finite;
  metrics.norm_a = Float32Norm(finite.npu_square_sum, sums.nan_count_a, sums.inf_count_a);
  metrics.norm_b = Float32Norm(finite.bench_square_sum, sums.nan_count_b, sums.inf_count_b);
  metrics.l2 = Distance(sums);
  metrics.cosine = Cosine(sums, metrics.norm_a, metrics.norm_b);
  AddRatios(sums, metrics);
  return metrics;
}

}  // namespace msprobe::analysis::ckpt
