// What the floating dtypes can hold: the one table of their precision and range.
//
// IEEE 754-2019 (binary16, 32, 64); bfloat16 is binary32 with 7 bits of mantissa; the 8-bit formats
// are those of P. Micikevicius et al., FP8 Formats for Deep Learning (2022), and their FNUZ
// variants (B. Noune et al., 8-bit Numerical Formats for Deep Neural Networks (2022)), as PyTorch
// has them.
#pragma once

#include <limits>

#include "msprobe/dtype.h"

namespace msprobe::tensor {

struct FloatFormat {
  double unit = 0;    // unit roundoff u, half the distance from 1 to the next number: 2^-24 for
                      // float32
  double tiny = 0;    // the smallest positive (subnormal) number
  double normal = 0;  // the smallest normal number
  double largest = std::numeric_limits<double>::infinity();
};

// Integers, bool and complex dtypes: unit, tiny and normal are 0.
FloatFormat FormatOf(DType dtype);

// The dtype of real and imaginary part; any other dtype is its own.
DType PartOf(DType dtype);

}  // namespace msprobe::tensor
