// The table against the codes of each format, and against the rounding of float_bits.h.
#include "src/tensor/float_limits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "src/tensor/float_bits.h"

namespace msprobe::tensor {
namespace {

struct Small {
  DType dtype;
  float (*decode)(uint8_t);
};

TEST(FloatFormat, EightBitFormatsAreAsTheirCodesAre) {
  for (const Small& small : {Small{DType::kFloat8E4M3FN, Float8E4M3FNToFloat},
                             Small{DType::kFloat8E5M2, Float8E5M2ToFloat},
                             Small{DType::kFloat8E4M3FNUZ, Float8E4M3FNUZToFloat},
                             Small{DType::kFloat8E5M2FNUZ, Float8E5M2FNUZToFloat}}) {
    const FloatFormat format = FormatOf(small.dtype);
    double tiny = std::numeric_limits<double>::infinity();
    double above_one = tiny;
    double largest = 0;
    for (int code = 0; code < 256; ++code) {
      const double value = small.decode(static_cast<uint8_t>(code));
      if (std::isfinite(value) && value > 0) {
        tiny = std::min(tiny, value);
        largest = std::max(largest, value);
        above_one = value > 1 ? std::min(above_one, value) : above_one;
      }
    }
    EXPECT_EQ(format.tiny, tiny) << DTypeName(small.dtype);
    EXPECT_EQ(format.largest, largest) << DTypeName(small.dtype);
    EXPECT_EQ(2 * format.unit, above_one - 1) << DTypeName(small.dtype);
    EXPECT_EQ(format.normal * 2 * format.unit, format.tiny) << DTypeName(small.dtype);
  }
}

TEST(FloatFormat, WiderFormatsAreAsNumbersRoundToThem) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    const FloatFormat format = FormatOf(dtype);
    EXPECT_EQ(RoundToDType(dtype, 1 + 2 * format.unit), 1 + 2 * format.unit) << DTypeName(dtype);
    EXPECT_EQ(RoundToDType(dtype, 1 + format.unit), 1) << DTypeName(dtype);
    EXPECT_EQ(RoundToDType(dtype, format.tiny), format.tiny) << DTypeName(dtype);
    EXPECT_EQ(RoundToDType(dtype, format.tiny / 2), 0) << DTypeName(dtype);
    EXPECT_EQ(RoundToDType(dtype, format.largest), format.largest) << DTypeName(dtype);
    EXPECT_EQ(format.normal * 2 * format.unit, format.tiny) << DTypeName(dtype);
  }
}

TEST(FloatFormat, WhatDoesNotRoundHasNoUnit) {
  for (const DType dtype : {DType::kInt32, DType::kBool, DType::kComplex64}) {
    EXPECT_EQ(FormatOf(dtype).unit, 0) << DTypeName(dtype);
    EXPECT_EQ(FormatOf(dtype).normal, 0) << DTypeName(dtype);
  }
  EXPECT_EQ(PartOf(DType::kComplex64), DType::kFloat32);
  EXPECT_EQ(PartOf(DType::kComplex128), DType::kFloat64);
  EXPECT_EQ(PartOf(DType::kInt8), DType::kInt8);
}

}  // namespace
}  // namespace msprobe::tensor
