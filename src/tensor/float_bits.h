// 16- and 8-bit floating formats to and from float32, one scalar at a time. They travel as unsigned
// integers because clang 14 has no _Float16 on x86-64. SIMD versions of the same rules live in
// kernels; these define what is right.
#pragma once

#include <bit>
#include <cstdint>

#include "msprobe/dtype.h"

namespace msprobe::tensor {

inline float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U);
}

// IEEE 754 binary16, subnormals, infinities and NaN included.
inline float Float16ToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16U;
  const uint32_t exponent = (bits >> 10U) & 0x1FU;
  const uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0x1F) {
    return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13U));
  }
  if (exponent == 0) {
    // Subnormal: mantissa * 2^-24, exact in float32.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
}

// Rounds to nearest even; NaN stays NaN.
uint16_t FloatToBFloat16(float value);
uint16_t FloatToFloat16(float value);

// Rounds `value` as a tensor of `dtype` stores it: float16 and bfloat16 by way of float32, as
// frameworks cast doubles (which rounds twice), to nearest even; float64 stays. Every other dtype
// rounds to float32, the type in which statistics of integers and 8-bit floats are kept.
double RoundToDType(DType dtype, double value);

// The OCP 8-bit formats and their fnuz variants (one NaN at 0x80, no infinities, no negative zero).
float Float8E4M3FNToFloat(uint8_t bits);
float Float8E5M2ToFloat(uint8_t bits);
float Float8E4M3FNUZToFloat(uint8_t bits);
float Float8E5M2FNUZToFloat(uint8_t bits);

}  // namespace msprobe::tensor
