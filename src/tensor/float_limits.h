// The one table of the precision and range of the floating dtypes.
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

  // Machine epsilon, the distance from 1 to the next number.
  constexpr double epsilon() const { return 2 * unit; }
};

// Integers, bool and complex dtypes: unit, tiny and normal are 0.
constexpr FloatFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return {0x1p-53, 0x1p-1074, 0x1p-1022, std::numeric_limits<double>::max()};
    case DType::kFloat32:
      return {0x1p-24, 0x1p-149, 0x1p-126, std::numeric_limits<float>::max()};
    case DType::kFloat16:
      return {0x1p-11, 0x1p-24, 0x1p-14, 65504};
    case DType::kBFloat16:
      return {0x1p-8, 0x1p-133, 0x1p-126, 0x1.FEp127};
    case DType::kFloat8E4M3FN:
      return {0x1p-4, 0x1p-9, 0x1p-6, 448};
    case DType::kFloat8E5M2:
      return {0x1p-3, 0x1p-16, 0x1p-14, 57344};
    case DType::kFloat8E4M3FNUZ:
      return {0x1p-4, 0x1p-10, 0x1p-7, 240};
    case DType::kFloat8E5M2FNUZ:
      return {0x1p-3, 0x1p-17, 0x1p-15, 57344};
    default:
      return {};
  }
}

// The dtype of real and imaginary part; any other dtype is its own.
constexpr DType PartOf(DType dtype) {
  return dtype == DType::kComplex64    ? DType::kFloat32
         : dtype == DType::kComplex128 ? DType::kFloat64
                                       : dtype;
}

}  // namespace msprobe::tensor
