#include "src/tensor/float_bits.h"

#include <cmath>
#include <limits>

namespace msprobe::tensor {
namespace {

// value = (-1)^sign * 2^(exponent - bias) * 1.mantissa, or 2^(1 - bias) * 0.mantissa when exponent
// is 0.
float DecodeFloat8(uint8_t bits, int mantissa_bits, int bias) {
  const int exponent = (bits & 0x7F) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int scale = 1 << mantissa_bits;
  const float fraction =
      static_cast<float>(exponent == 0 ? mantissa : mantissa + scale) / static_cast<float>(scale);
  const float magnitude = std::ldexp(fraction, (exponent == 0 ? 1 : exponent) - bias);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) {
    return static_cast<uint16_t>((bits >> 16U) | 0x40U);
  }
  const uint32_t rounding = 0x7FFFU + ((bits >> 16U) & 1U);
  return static_cast<uint16_t>((bits + rounding) >> 16U);
}

uint16_t FloatToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16U) & 0x8000U);
  if (std::isnan(value)) {
    return static_cast<uint16_t>(sign | 0x7E00U);
  }
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0F) {  // halfway between the largest float16 and the next step
    return static_cast<uint16_t>(sign | 0x7C00U);
  }
  if (magnitude < 0x1p-14F) {
    // Subnormal: nearbyint rounds half to even in the default rounding mode.
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24F)));
  }
  const uint32_t magnitude_bits = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounding = 0xFFFU + ((magnitude_bits >> 13U) & 1U);
  return static_cast<uint16_t>(sign | ((magnitude_bits + rounding - (112U << 23U)) >> 13U));
}

double RoundToDType(DType dtype, double value) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case DType::kFloat64:
      return value;
    case DType::kFloat16:
      return static_cast<double>(Float16ToFloat(FloatToFloat16(single)));
    case DType::kBFloat16:
      return static_cast<double>(BFloat16ToFloat(FloatToBFloat16(single)));
    default:
      return static_cast<double>(single);
  }
}

float Float8E4M3FNToFloat(uint8_t bits) {
  return (bits & 0x7F) == 0x7F ? kNan : DecodeFloat8(bits, 3, 7);
}

float Float8E5M2ToFloat(uint8_t bits) {
  const int magnitude = bits & 0x7F;
  if (magnitude > 0x7C) {
    return kNan;
  }
  if (magnitude == 0x7C) {
    return (bits & 0x80) != 0 ? -std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::infinity();
  }
  return DecodeFloat8(bits, 2, 15);
}

float Float8E4M3FNUZToFloat(uint8_t bits) { return bits == 0x80 ? kNan : DecodeFloat8(bits, 3, 8); }

float Float8E5M2FNUZToFloat(uint8_t bits) {
  return bits == 0x80 ? kNan : DecodeFloat8(bits, 2, 16);
}

}  // namespace msprobe::tensor
