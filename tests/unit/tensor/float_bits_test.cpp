// Exhaustive: every code of every small format, against the formula of its standard.
#include "src/tensor/float_bits.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace msprobe::tensor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// (-1)^sign * 2^(exponent - bias) * 1.mantissa, subnormals as 2^(1 - bias) * 0.mantissa; exact in
// double.
double Formula(unsigned code, unsigned exponent_bits, unsigned mantissa_bits, int bias) {
  const unsigned exponent = (code >> mantissa_bits) & ((1U << exponent_bits) - 1U);
  const unsigned mantissa = code & ((1U << mantissa_bits) - 1U);
  const bool negative = ((code >> (exponent_bits + mantissa_bits)) & 1U) != 0;
  const double fraction = mantissa * std::pow(2.0, -static_cast<double>(mantissa_bits));
  const double magnitude =
      exponent == 0 ? fraction * std::pow(2.0, 1 - bias)
                    : (1.0 + fraction) * std::pow(2.0, static_cast<int>(exponent) - bias);
  return negative ? -magnitude : magnitude;
}

// Equal including the sign of zero; any NaN equals any NaN.
bool SameValue(double expected, float actual) {
  if (std::isnan(expected)) {
    return std::isnan(actual);
  }
  return static_cast<double>(actual) == expected && std::signbit(actual) == std::signbit(expected);
}

TEST(Float16, AllCodesDecodeByTheFormula) {
  for (unsigned code = 0; code < 0x10000U; ++code) {
    double expected = Formula(code, 5, 10, 15);
    if ((code & 0x7C00U) == 0x7C00U) {
      expected =
          (code & 0x3FFU) != 0 ? std::nan("") : ((code & 0x8000U) != 0 ? -kInfinity : kInfinity);
    }
    ASSERT_TRUE(SameValue(expected, Float16ToFloat(static_cast<uint16_t>(code)))) << code;
  }
}

TEST(Float16, AllCodesSurviveTheRoundTrip) {
  for (unsigned code = 0; code < 0x10000U; ++code) {
    const float value = Float16ToFloat(static_cast<uint16_t>(code));
    const uint16_t back = FloatToFloat16(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(Float16ToFloat(back))) << code;
    } else {
      ASSERT_EQ(back, code);
    }
  }
}

TEST(Float16, RoundsToNearestAndTiesToEvenBetweenAllNeighbours) {
  for (unsigned code = 0; code < 0x7BFFU; ++code) {
    const float low = Float16ToFloat(static_cast<uint16_t>(code));
    const float high = Float16ToFloat(static_cast<uint16_t>(code + 1));
    const float middle = (low + high) / 2;  // exact: one bit more than float16 has
    const auto even = static_cast<uint16_t>((code & 1U) == 0 ? code : code + 1);
    ASSERT_EQ(FloatToFloat16(middle), even) << code;
    ASSERT_EQ(FloatToFloat16(std::nextafter(middle, 0.0F)), code);
    ASSERT_EQ(FloatToFloat16(std::nextafter(middle, kInfinity)), code + 1);
    ASSERT_EQ(FloatToFloat16(-middle), even | 0x8000U);
  }
}

TEST(Float16, OverflowsToInfinityFromTheHalfwayPointOn) {
  EXPECT_EQ(FloatToFloat16(65504.0F), 0x7BFF);
  EXPECT_EQ(FloatToFloat16(std::nextafter(65520.0F, 0.0F)), 0x7BFF);
  EXPECT_EQ(FloatToFloat16(65520.0F), 0x7C00);
  EXPECT_EQ(FloatToFloat16(-1e30F), 0xFC00);
  EXPECT_EQ(FloatToFloat16(kInfinity), 0x7C00);
}

TEST(BFloat16, AllCodesSurviveTheRoundTrip) {
  for (unsigned code = 0; code < 0x10000U; ++code) {
    const float value = BFloat16ToFloat(static_cast<uint16_t>(code));
    const uint16_t back = FloatToBFloat16(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(BFloat16ToFloat(back))) << code;
    } else {
      ASSERT_EQ(back, code);
    }
  }
}

TEST(BFloat16, RoundsToNearestAndTiesToEvenBetweenAllNeighbours) {
  for (unsigned code = 0; code < 0x7F7FU; ++code) {
    const uint32_t middle_bits = (code << 16U) | 0x8000U;
    const auto even = static_cast<uint16_t>((code & 1U) == 0 ? code : code + 1);
    ASSERT_EQ(FloatToBFloat16(std::bit_cast<float>(middle_bits)), even) << code;
    ASSERT_EQ(FloatToBFloat16(std::bit_cast<float>(middle_bits - 1)), code);
    ASSERT_EQ(FloatToBFloat16(std::bit_cast<float>(middle_bits + 1)), code + 1);
  }
}

TEST(BFloat16, NanWithLowPayloadStaysNan) {
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(std::bit_cast<float>(0x7F800001U)))));
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(Float8, AllCodesOfE4M3FNDecodeByTheFormula) {
  for (unsigned code = 0; code < 256; ++code) {
    const double expected = (code & 0x7FU) == 0x7FU ? std::nan("") : Formula(code, 4, 3, 7);
    EXPECT_TRUE(SameValue(expected, Float8E4M3FNToFloat(static_cast<uint8_t>(code)))) << code;
  }
  EXPECT_EQ(Float8E4M3FNToFloat(0x7E), 448.0F);
}

TEST(Float8, AllCodesOfE5M2DecodeByTheFormula) {
  for (unsigned code = 0; code < 256; ++code) {
    double expected = Formula(code, 5, 2, 15);
    if ((code & 0x7CU) == 0x7CU) {
      expected = (code & 3U) != 0 ? std::nan("") : ((code & 0x80U) != 0 ? -kInfinity : kInfinity);
    }
    EXPECT_TRUE(SameValue(expected, Float8E5M2ToFloat(static_cast<uint8_t>(code)))) << code;
  }
  EXPECT_EQ(Float8E5M2ToFloat(0x7B), 57344.0F);
}

TEST(Float8, FnuzVariantsHaveOneNanAndNoInfinity) {
  for (unsigned code = 0; code < 256; ++code) {
    const auto bits = static_cast<uint8_t>(code);
    EXPECT_TRUE(SameValue(code == 0x80 ? std::nan("") : Formula(code, 4, 3, 8),
                          Float8E4M3FNUZToFloat(bits)))
        << code;
    EXPECT_TRUE(SameValue(code == 0x80 ? std::nan("") : Formula(code, 5, 2, 16),
                          Float8E5M2FNUZToFloat(bits)))
        << code;
  }
  EXPECT_EQ(Float8E4M3FNUZToFloat(0x7F), 240.0F);
  EXPECT_EQ(Float8E5M2FNUZToFloat(0x7F), 57344.0F);
}

// Every value of the format stays, and what lies between two neighbours goes to the nearer one, a
// tie to the even one.
void ExpectRoundsToNearestOf(DType dtype, float (*decode)(uint16_t), unsigned infinity) {
  const auto value_of = [decode](unsigned code) {
    return static_cast<double>(decode(static_cast<uint16_t>(code)));
  };
  for (unsigned code = 0; code < 0x10000U; ++code) {
    const double value = value_of(code);
    ASSERT_TRUE(SameValue(value, static_cast<float>(RoundToDType(dtype, value)))) << code;
  }
  for (unsigned code = 0; code + 1 < infinity; ++code) {
    const double low = value_of(code);
    const double high = value_of(code + 1);
    const double middle =
        low + (high - low) / 2;  // exact in float32, too, but for subnormals there
    for (const double sign : {1.0, -1.0}) {
      ASSERT_EQ(RoundToDType(dtype, sign * middle), sign * (code % 2 == 0 ? low : high)) << code;
      ASSERT_EQ(RoundToDType(dtype, sign * (low + (high - low) * 0.49)), sign * low) << code;
      ASSERT_EQ(RoundToDType(dtype, sign * (low + (high - low) * 0.51)), sign * high) << code;
    }
  }
  EXPECT_EQ(RoundToDType(dtype, 1e300), kInfinity);
  EXPECT_TRUE(std::isnan(RoundToDType(dtype, std::nan(""))));
}

TEST(RoundToDType, GoesToTheNearestFloat16) {
  ExpectRoundsToNearestOf(DType::kFloat16, &Float16ToFloat, 0x7C00U);
}

TEST(RoundToDType, GoesToTheNearestBFloat16) {
  ExpectRoundsToNearestOf(DType::kBFloat16, &BFloat16ToFloat, 0x7F80U);
}

TEST(RoundToDType, RoundsByWayOfFloat32AsFrameworksCast) {
  // Just above the middle of two neighbours: float32 makes a tie of it, which goes to the even one.
  EXPECT_EQ(RoundToDType(DType::kFloat16, 1 + 0x1p-11 + 0x1p-40), 1.0);
  EXPECT_EQ(RoundToDType(DType::kBFloat16, 1 + 0x1p-8 + 0x1p-40), 1.0);
}

TEST(RoundToDType, TakesAllOtherTypesForFloat32ButDoubles) {
  EXPECT_EQ(RoundToDType(DType::kFloat64, 0.1), 0.1);
  for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kFloat8E5M2, DType::kBool}) {
    EXPECT_EQ(RoundToDType(dtype, 0.1), double{0.1F});
  }
}

}  // namespace
}  // namespace msprobe::tensor
