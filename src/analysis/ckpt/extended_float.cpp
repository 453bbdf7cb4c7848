#include "src/analysis/ckpt/extended_float.h"

#include <algorithm>
#include <bit>

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

}  // namespace msprobe::analysis::ckpt
