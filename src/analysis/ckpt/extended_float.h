// Floating-point numbers of 64 significant bits: they hold every integer of 64 bits and the squares
// of every double. x86-64 has them in hardware, as long double. Elsewhere long double is something
// else (128 bits in software on aarch64), and results would differ in their last digit; there
// SoftExtendedFloat computes the same bits.
#pragma once

#include <cfloat>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

namespace msprobe::analysis::ckpt {

// IEEE 754 arithmetic, rounded to nearest, ties to even. Exponents have no end that sums over
// tensors could reach: nothing overflows and nothing is subnormal. Infinities and NaN are kept and
// compared; arithmetic with them gives NaN.
class SoftExtendedFloat {
 public:
  constexpr SoftExtendedFloat() = default;
  SoftExtendedFloat(
      double value);  // NOLINT(google-explicit-constructor): exact, as float to double
  template <std::integral Integer>
  SoftExtendedFloat(Integer value)  // NOLINT(google-explicit-constructor): exact
      : SoftExtendedFloat(value < 0, value < 0 ? uint64_t{0} - static_cast<uint64_t>(value)
                                               : static_cast<uint64_t>(value)) {}

  // Rounded to nearest, ties to even; infinity where double ends.
  explicit operator double() const;

  SoftExtendedFloat operator-() const;
  friend SoftExtendedFloat operator+(const SoftExtendedFloat& a, const SoftExtendedFloat& b);
  friend SoftExtendedFloat operator-(const SoftExtendedFloat& a, const SoftExtendedFloat& b) {
    return a + -b;
  }
  friend SoftExtendedFloat operator*(const SoftExtendedFloat& a, const SoftExtendedFloat& b);
  // `b` is not zero.
  friend SoftExtendedFloat operator/(const SoftExtendedFloat& a, const SoftExtendedFloat& b);
  SoftExtendedFloat& operator+=(const SoftExtendedFloat& other) { return *this = *this + other; }
  friend bool operator==(const SoftExtendedFloat& a, const SoftExtendedFloat& b);
  friend bool operator>(const SoftExtendedFloat& a, const SoftExtendedFloat& b);

  // Of a number that is not negative.
  friend SoftExtendedFloat SquareRoot(const SoftExtendedFloat& value);
  friend SoftExtendedFloat Magnitude(const SoftExtendedFloat& value) {
    return value.negative_ ? -value : value;
  }
  friend bool IsFinite(const SoftExtendedFloat& value) { return value.kind_ == Kind::kFinite; }
  friend bool IsNan(const SoftExtendedFloat& value) { return value.kind_ == Kind::kNan; }

 private:
  __extension__ using Wide = unsigned __int128;
  enum class Kind : uint8_t { kFinite, kInfinite, kNan };

  SoftExtendedFloat(bool negative, uint64_t integer);
  static SoftExtendedFloat Nan();
  // value * 2^exponent, and a little more where `inexact`; then value has at least 66 bits.
  static SoftExtendedFloat Rounded(bool negative, Wide value, int32_t exponent, bool inexact);

  uint64_t significand_ = 0;  // the highest bit is set; 0: the number is zero
  int32_t exponent_ = 0;      // the number is significand * 2^exponent
  bool negative_ = false;
  Kind kind_ = Kind::kFinite;
};

inline long double SquareRoot(long double value) { return std::sqrt(value); }
inline long double Magnitude(long double value) { return std::fabs(value); }
inline bool IsFinite(long double value) { return std::isfinite(value); }
inline bool IsNan(long double value) { return std::isnan(value); }

#if LDBL_MANT_DIG == 64
using ExtendedFloat = long double;
#else
using ExtendedFloat = SoftExtendedFloat;
#endif

}  // namespace msprobe::analysis::ckpt
