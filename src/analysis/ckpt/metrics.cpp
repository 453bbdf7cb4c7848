#include "src/analysis/ckpt/metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace msprobe::analysis::ckpt {
namespace {

__extension__ using Wide128 = unsigned __int128;

constexpr uint64_t kHalf = uint64_t{1} << 63U;

int LeadingZeros(Wide128 value) {
  const auto high = static_cast<uint64_t>(value >> 64U);
  return high != 0 ? std::countl_zero(high) : 64 + std::countl_zero(static_cast<uint64_t>(value));
}

// The largest integer whose square is not above `value`, which has 127 or 128 bits.
uint64_t IntegerRoot(Wide128 value) {
  const double estimate = std::sqrt(static_cast<double>(static_cast<uint64_t>(value >> 64U)));
  // Right in 31 bits at least; each step of Newton's method doubles that, and never ends below.
  Wide128 root = static_cast<Wide128>(estimate) << 32U;
  for (int step = 0; step < 3; ++step) {
    root = (root + value / root) / 2;
  }
  root = std::min<Wide128>(root, std::numeric_limits<uint64_t>::max());
  while (root * root > value) {
    --root;
  }
  while (root < std::numeric_limits<uint64_t>::max() && (root + 1) * (root + 1) <= value) {
    ++root;
  }
  return static_cast<uint64_t>(root);
}

}  // namespace

SoftExtendedFloat::SoftExtendedFloat(bool negative, uint64_t integer) : negative_(negative) {
  if (integer != 0) {
    const int shift = std::countl_zero(integer);
    significand_ = integer << static_cast<unsigned>(shift);
    exponent_ = -shift;
  }
}

SoftExtendedFloat::SoftExtendedFloat(double value) : negative_(std::signbit(value)) {
  if (std::isnan(value)) {
    *this = Nan();
  } else if (std::isinf(value)) {
    kind_ = Kind::kInfinite;
  } else if (value != 0) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent);  // from 1/2 to below 1
    significand_ = static_cast<uint64_t>(std::ldexp(fraction, 53)) << 11U;
    exponent_ = exponent - 64;
  }
}

SoftExtendedFloat SoftExtendedFloat::Nan() {
  SoftExtendedFloat nan;
  nan.kind_ = Kind::kNan;
  return nan;
}

SoftExtendedFloat SoftExtendedFloat::Rounded(bool negative, Wide value, int32_t exponent,
                                             bool inexact) {
  SoftExtendedFloat result;
  result.negative_ = negative;
  if (value == 0) {
    return result;
  }
  const int shift = LeadingZeros(value);
  value <<= static_cast<unsigned>(shift);
  const auto low = static_cast<uint64_t>(value);
  result.significand_ = static_cast<uint64_t>(value >> 64U);
  result.exponent_ = exponent - shift + 64;
  const bool odd = (result.significand_ & 1U) != 0;
  if (low > kHalf || (low == kHalf && (inexact || odd))) {
    if (++result.significand_ == 0) {
      result.significand_ = kHalf;
      ++result.exponent_;
    }
  }
  return result;
}

SoftExtendedFloat::operator double() const {
  const double sign = negative_ ? -1.0 : 1.0;
  if (kind_ != Kind::kFinite) {
    return kind_ == Kind::kNan ? std::numeric_limits<double>::quiet_NaN()
                               : sign * std::numeric_limits<double>::infinity();
  }
  // Below the smallest normal number fewer bits than 53 are there.
  const int highest = exponent_ + 63;
  const int kept =
      highest >= DBL_MIN_EXP - 1 ? DBL_MANT_DIG : DBL_MANT_DIG - (DBL_MIN_EXP - 1 - highest);
  if (significand_ == 0 || kept < 0) {
    return sign * 0.0;
  }
  const int dropped = 64 - kept;
  const Wide value = Wide{significand_} << 64U >> static_cast<unsigned>(dropped);
  auto rounded = static_cast<uint64_t>(value >> 64U);
  const auto rest = static_cast<uint64_t>(value);
  rounded += rest > kHalf || (rest == kHalf && (rounded & 1U) != 0) ? 1U : 0U;
  return sign * std::ldexp(static_cast<double>(rounded), exponent_ + dropped);
}

SoftExtendedFloat SoftExtendedFloat::operator-() const {
  SoftExtendedFloat result = *this;
  result.negative_ = !negative_;
  return result;
}

SoftExtendedFloat operator+(const SoftExtendedFloat& a, const SoftExtendedFloat& b) {
  using Wide = SoftExtendedFloat::Wide;
  if (!IsFinite(a) || !IsFinite(b)) {
    return SoftExtendedFloat::Nan();
  }
  if (a.significand_ == 0 || b.significand_ == 0) {
    SoftExtendedFloat sum = b.significand_ == 0 ? a : b;
    sum.negative_ = sum.negative_ && (sum.significand_ != 0 || (a.negative_ && b.negative_));
    return sum;
  }
  const bool swapped =
      a.exponent_ < b.exponent_ || (a.exponent_ == b.exponent_ && a.significand_ < b.significand_);
  const SoftExtendedFloat& large = swapped ? b : a;
  const SoftExtendedFloat& small = swapped ? a : b;
  // One bit is left for the carry.
  const Wide first = Wide{large.significand_} << 63U;
  const Wide second = Wide{small.significand_} << 63U;
  const auto distance = static_cast<uint32_t>(large.exponent_ - small.exponent_);
  const Wide shifted = distance < 128 ? second >> distance : 0;
  const bool inexact = distance >= 128 || shifted << distance != second;
  const int32_t exponent = large.exponent_ - 63;
  if (large.negative_ == small.negative_) {
    return SoftExtendedFloat::Rounded(large.negative_, first + shifted, exponent, inexact);
  }
  const Wide difference = first - shifted - (inexact ? 1U : 0U);
  return SoftExtendedFloat::Rounded(large.negative_ && difference != 0, difference, exponent,
                                    inexact);
}

SoftExtendedFloat operator*(const SoftExtendedFloat& a, const SoftExtendedFloat& b) {
  if (!IsFinite(a) || !IsFinite(b)) {
    return SoftExtendedFloat::Nan();
  }
  return SoftExtendedFloat::Rounded(a.negative_ != b.negative_,
                                    SoftExtendedFloat::Wide{a.significand_} * b.significand_,
                                    a.exponent_ + b.exponent_, false);
}

SoftExtendedFloat operator/(const SoftExtendedFloat& a, const SoftExtendedFloat& b) {
  using Wide = SoftExtendedFloat::Wide;
  if (!IsFinite(a) || !IsFinite(b) || b.significand_ == 0) {
    return SoftExtendedFloat::Nan();
  }
  // 64 or 65 bits, and 32 more of what is left.
  const Wide dividend = Wide{a.significand_} << 64U;
  const Wide rest = dividend % b.significand_ << 32U;
  const Wide quotient = (dividend / b.significand_ << 32U) | (rest / b.significand_);
  return SoftExtendedFloat::Rounded(a.negative_ != b.negative_, quotient,
                                    a.exponent_ - b.exponent_ - 96, rest % b.significand_ != 0);
}

bool operator==(const SoftExtendedFloat& a, const SoftExtendedFloat& b) {
  if (IsNan(a) || IsNan(b)) {
    return false;
  }
  const bool zeros = a.significand_ == 0 && b.significand_ == 0 && IsFinite(a) && IsFinite(b);
  return zeros || (a.kind_ == b.kind_ && a.negative_ == b.negative_ &&
                   a.significand_ == b.significand_ && a.exponent_ == b.exponent_);
}

bool operator>(const SoftExtendedFloat& a, const SoftExtendedFloat& b) {
  const SoftExtendedFloat difference = a - b;
  return IsFinite(difference) && difference.significand_ != 0 && !difference.negative_;
}

SoftExtendedFloat SquareRoot(const SoftExtendedFloat& value) {
  using Wide = SoftExtendedFloat::Wide;
  if (!IsFinite(value) || value.significand_ == 0) {
    return value;
  }
  // An even exponent halves; the root then has 64 bits, and no root lies halfway between two.
  const unsigned shift = value.exponent_ % 2 == 0 ? 64 : 63;
  const Wide square = Wide{value.significand_} << shift;
  SoftExtendedFloat root;
  root.significand_ = IntegerRoot(square);
  root.exponent_ = (value.exponent_ - static_cast<int32_t>(shift)) / 2;
  const Wide rest = square - Wide{root.significand_} * root.significand_;
  if (rest > root.significand_ && ++root.significand_ == 0) {
    root.significand_ = kHalf;
    ++root.exponent_;
  }
  return root;
}

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
  into.beyond_a += next.beyond_a;
  into.beyond_b += next.beyond_b;
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
