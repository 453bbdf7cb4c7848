// From sums over a pair of parameters to the figures of the results.
#pragma once

#include <cfloat>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>

#include "src/kernels/compare.h"

namespace msprobe::analysis::ckpt {

// Floating-point numbers of 64 significant bits: they hold every integer of 64 bits and the squares
// of every double. x86-64 has them in hardware, as long double. Elsewhere long double is something
// else (128 bits in software on aarch64), and results would differ in their last digit; there
// SoftExtendedFloat computes the same bits.

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

  // The root of a number that is not negative.
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

// Sums of squares and products beyond the range of double.
struct WideSums {
  ExtendedFloat dot = 0;
  ExtendedFloat square_sum_a = 0;
  ExtendedFloat square_sum_b = 0;
  ExtendedFloat difference_square_sum = 0;
};

// The sums over a run of elements: of the values themselves, or of both sides converted to float32.
struct PairSums {
  // "npu" is the test, "bench" the reference. Pairs of which one side is not finite enter
  // the other side's sum of squares only.
  kernels::ComparePartial finite;
  uint64_t nan_count_a = 0;
  uint64_t nan_count_b = 0;
  uint64_t inf_count_a = 0;
  uint64_t inf_count_b = 0;
  uint64_t same_inf_count = 0;   // the same infinity on both sides
  uint64_t exceeding_count = 0;  // |a - b| > atol + rtol * |b|, or not finite on one side
  // Differ by more than rounding to the format of that side explains; where a side is stored as
  // codes, both count what is beyond the bounds of all codes together.
  uint64_t beyond_a = 0;
  uint64_t beyond_b = 0;
  bool equal_bits = true;  // of the stored elements; false where the dtypes differ
  double sum_a = 0;        // of all elements, when asked for
  double sum_b = 0;
  // Set where a square of a finite element overflows or vanishes in double: stands for the sums of
  // squares and products in `finite`.
  std::optional<WideSums> wide;
};
void MergeSums(PairSums& into, const PairSums& next);

// Whether squares of finite elements may have overflowed or vanished in double: such a pair is
// walked again with WideSumsOfBlock.
bool LeavesDouble(const PairSums& sums);

// Whether the sums are so small that squares may have vanished in float32. Such a pair is walked
// again with FlushedStep, whose sums replace those of the first walk.
bool MayUnderflow(const PairSums& sums);
// Adds one pair of elements with every product rounded to float32 first.
void FlushedStep(float a, float b, kernels::ComparePartial& sums);

struct PairMetrics {
  // The Python tool's figures. nullopt: null in its file.
  std::optional<double> l2;
  std::optional<double> cosine;
  // For our own columns. Ratios divide as IEEE 754 does: infinity where only the divisor is zero.
  double norm_a = 0;
  double norm_b = 0;
  double norm_ratio = 0;   // a to b
  double relative_l2 = 0;  // l2 / norm_b; 0 when both sides are equal
  double rms_error = 0;    // l2 / sqrt(n)
};
PairMetrics ComputeMetrics(const PairSums& sums);
// The same as the Python tool's float32 arithmetic gives them: float32 results as doubles, infinite
// or zero where a sum of squares leaves float32.
PairMetrics ComputeFloat32Metrics(const PairSums& sums);

}  // namespace msprobe::analysis::ckpt
