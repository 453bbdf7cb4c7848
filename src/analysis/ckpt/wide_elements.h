// Elements that a double does not hold, one by one: complex numbers and integers of 64 bits. They
// are rare in checkpoints, so exactness counts here and speed does not; the SIMD kernels keep to
// floats.
#pragma once

#include <cstddef>

#include "src/analysis/ckpt/extended_float.h"
#include "src/analysis/ckpt/metrics.h"
#include "src/analysis/ckpt/options.h"
#include "src/analysis/ckpt/refine.h"

namespace msprobe::analysis::ckpt {

// Of any dtype.
struct WideElement {
  ExtendedFloat real = 0;
  ExtendedFloat imaginary = 0;

  bool is_finite() const { return IsFinite(real) && IsFinite(imaginary); }
  bool is_nan() const { return IsNan(real) || IsNan(imaginary); }
  ExtendedFloat square() const { return real * real + imaginary * imaginary; }
  ExtendedFloat magnitude() const {
    return imaginary == 0 ? Magnitude(real) : SquareRoot(square());
  }
  bool operator==(const WideElement& other) const = default;
  WideElement operator-(const WideElement& other) const {
    return {real - other.real, imaginary - other.imaginary};
  }
};

// A little-endian element at any alignment.
WideElement LoadWide(DType dtype, const std::byte* element);

// What SumsOfBlock tells, equal bits aside, of elements that lie in row-major order. Of complex
// numbers errors are magnitudes of the difference, and the sums are of the real part.
PairSums WideStepSums(const Box& box, const std::byte* stored_a, const std::byte* stored_b,
                      size_t count, const Tolerance& tolerance, bool means);

}  // namespace msprobe::analysis::ckpt
