// Codes of quantised weights decoded by every implementation, held against one loop from their
// definition; and the comparison within bounds against CompareBlock.
#include "src/kernels/codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "src/kernels/compare.h"
#include "src/tensor/float_bits.h"
#include "tests/unit/kernels/test_values.h"

namespace msprobe::kernels {
namespace {

class Codes : public EveryTable {};

uint32_t BitsOf(float value) {
  return std::isnan(value) ? 0x7FC00000U : std::bit_cast<uint32_t>(value);
}

float NumberOf(ByteCode code, uint8_t byte) {
  switch (code) {
    case ByteCode::kFloat8E4M3:
      return tensor::Float8E4M3FNToFloat(byte);
    case ByteCode::kFloat8E5M2:
      return tensor::Float8E5M2ToFloat(byte);
    case ByteCode::kInt8:
      return static_cast<float>(static_cast<int8_t>(byte));
  }
  return 0;
}

// The wider gap beside a number among all numbers of its kind.
float GapOf(ByteCode code, float number) {
  float below = 0;
  float above = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const float other = NumberOf(code, static_cast<uint8_t>(byte));
    if (std::isfinite(other) && other < number) {
      below = below == 0 ? number - other : std::min(below, number - other);
    } else if (std::isfinite(other) && other > number) {
      above = above == 0 ? other - number : std::min(above, other - number);
    }
  }
  return std::max(below, above);
}

TEST_P(Codes, BytesAreTheirNumbersAndGaps) {
  std::vector<std::byte> codes;
  for (unsigned i = 0; i < 259; ++i) {
    codes.push_back(static_cast<std::byte>(i));
  }
  const ByteRule rule = {.scale = -0.75F,
                         .size = 0.75F,
                         .inner_steps = 0.5F,
                         .end_steps = 2,
                         .relative = 0x1p-8F,
                         .most_steps = 0.25F};
  for (const ByteCode code : {ByteCode::kFloat8E4M3, ByteCode::kFloat8E5M2, ByteCode::kInt8}) {
    std::vector<float> values(codes.size());
    std::vector<float> bounds(codes.size());
    DecodeBytes(code, codes.data(), codes.size(), rule, values.data(), bounds.data());
    for (size_t i = 0; i < codes.size(); ++i) {
      const float number = NumberOf(code, static_cast<uint8_t>(i));
      ASSERT_EQ(BitsOf(values[i]), BitsOf(number * rule.scale)) << i;
      if (!std::isfinite(number)) {
        ASSERT_EQ(bounds[i], 0) << i;
        continue;
      }
      const float largest = code == ByteCode::kInt8         ? 127.F
                            : code == ByteCode::kFloat8E4M3 ? 448.F
                                                            : 57344.F;
      const float gap = GapOf(code, number);
      const float bound = gap * (std::fabs(number) >= largest ? 2.F : 0.5F) +
                          std::min(std::fabs(number) * 0x1p-8F, gap * 0.25F);
      ASSERT_EQ(bounds[i], bound * rule.size) << static_cast<int>(code) << " " << i;
    }
    std::vector<float> alone(codes.size());
    DecodeBytes(code, codes.data(), codes.size(), rule, alone.data(), nullptr);
    for (size_t i = 0; i < codes.size(); ++i) {
      ASSERT_EQ(BitsOf(values[i]), BitsOf(alone[i]));
    }
  }
}

TEST_P(Codes, NibblesAreEntriesOfTheScaledTable) {
  NibbleRule rule;
  for (size_t i = 0; i < 16; ++i) {
    rule.numbers[i] = static_cast<float>(i * i) - 3;
    rule.steps[i] = 0.5F + static_cast<float>(i) / 8;
  }
  rule.zero = 5;
  rule.scale = -0.3F;
  rule.reach = 0.31F;
  rule.error = 0.01F;
  rule.added = 7.5F;
  rule.relative = 0x1p-8F;
  rule.most_steps = 0.25F;
  std::mt19937 random(1);
  std::vector<std::byte> bytes(160);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random());
  }
  for (const NibbleOrder order : {NibbleOrder::kLowFirst, NibbleOrder::kHighFirst}) {
    for (size_t count = 0; count < 150; ++count) {
      std::vector<float> values(count + 1, 99);
      std::vector<float> bounds(count + 1, 99);
      DecodeNibbles(bytes.data() + 1, count, order, rule, values.data(), bounds.data());
      for (size_t i = 0; i < count; ++i) {
        const auto byte = static_cast<unsigned>(bytes[1 + i / 2]);
        const bool low = (i % 2 == 0) == (order == NibbleOrder::kLowFirst);
        const unsigned code = low ? byte & 15U : byte >> 4U;
        const float number = rule.numbers[code] - 5;
        const float more = std::min((std::fabs(number) + 7.5F) * 0x1p-8F, 0.25F);
        const float bound = 0.31F * (rule.steps[code] + more);
        ASSERT_EQ(values[i], number * rule.scale);
        ASSERT_EQ(bounds[i], bound + std::fabs(number) * 0.01F);
      }
      ASSERT_EQ(values[count], 99);
      ASSERT_EQ(bounds[count], 99);
    }
  }
}

enum class Kind { kOrdinary, kZeros, kSame, kTiny, kAny };

std::vector<float> ValuesOf(Kind kind, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const auto bits = static_cast<uint32_t>(random());
    const float ordinary = (static_cast<float>(bits % 20001) - 10000) * 0.0001F;
    value = kind == Kind::kZeros && bits % 3 == 0 ? (bits % 2 == 0 ? -0.F : 0.F)
            : kind == Kind::kTiny                 ? ordinary * 0x1p-135F
            : kind == Kind::kAny                  ? std::bit_cast<float>(bits)
                                                  : ordinary;
    value = std::isfinite(value) ? value : 1;
  }
  return values;
}

// The same sums and largest errors, to the bit, for elements of every size, zeros on either side
// and the rules of all dtypes.
TEST_P(Codes, BoundedComparisonGivesTheSumsOfCompareBlock) {
  for (const Kind kind : {Kind::kOrdinary, Kind::kZeros, Kind::kSame, Kind::kTiny, Kind::kAny}) {
    for (const size_t count : {1, 15, 16, 100, 1023, 1024, 5000}) {
      const std::vector<float> a = ValuesOf(kind, count, 1);
      std::vector<float> b = ValuesOf(kind, count, 2);
      for (size_t i = 0; i < count && kind == Kind::kSame; ++i) {
        b[i] = i % 5 == 0 ? a[i] * 1.0001F : a[i];
      }
      std::vector<float> bounds(count, 0.5F);
      uint64_t beyond = 0;
      for (size_t i = 0; i < count; ++i) {
        beyond += std::fabs(a[i] - b[i]) <= bounds[i] ? 0 : 1;
      }
      const BoundedPartial found = CompareBounded(
          DType::kFloat32, DType::kBFloat16, count, count % 2 == 0, [&](size_t first, size_t) {
            return BoundedRun{a.data() + first, b.data() + first, bounds.data() + first};
          });
      const ComparePartial wanted =
          CompareBlock(DType::kFloat32, reinterpret_cast<const std::byte*>(a.data()),
                       DType::kFloat32, reinterpret_cast<const std::byte*>(b.data()), count);
      ASSERT_TRUE(found.all_finite);
      double sum = 0;
      for (size_t i = 0; i < count && count % 2 == 0; ++i) {
        sum += static_cast<double>(a[i]);
      }
      EXPECT_TRUE(
          Near(found.npu_sum, sum, std::sqrt(wanted.npu_square_sum * static_cast<double>(count))));
      EXPECT_EQ(found.beyond, beyond);
      EXPECT_EQ(found.sums.dot, wanted.dot);
      EXPECT_EQ(found.sums.npu_square_sum, wanted.npu_square_sum);
      EXPECT_EQ(found.sums.bench_square_sum, wanted.bench_square_sum);
      EXPECT_EQ(found.sums.difference_square_sum, wanted.difference_square_sum);
      EXPECT_EQ(found.sums.max_abs_error, wanted.max_abs_error);
      EXPECT_EQ(found.sums.max_relative_error, wanted.max_relative_error)
          << static_cast<int>(kind) << " " << count;
      EXPECT_EQ(found.sums.different_count, wanted.different_count);
    }
  }
}

// A side of float16 adds nothing to its zeros, so that two zeros differ.
TEST_P(Codes, BoundedComparisonKnowsTheEpsilonsOfFloat16) {
  const size_t count = 300;
  std::vector<uint16_t> halves(count);
  std::vector<float> widened(count);
  std::vector<float> other = ValuesOf(Kind::kZeros, count, 4);
  for (size_t i = 0; i < count; ++i) {
    halves[i] = i % 4 == 0 ? 0 : tensor::FloatToFloat16(other[i] * 1.01F + 0.001F);
    widened[i] = tensor::Float16ToFloat(halves[i]);
    other[i] = i % 8 == 0 ? 0 : other[i];
  }
  const std::vector<float> bounds(count, 1);
  const auto* half_bytes = reinterpret_cast<const std::byte*>(halves.data());
  const auto* float_bytes = reinterpret_cast<const std::byte*>(other.data());
  const BoundedPartial found =
      CompareBounded(DType::kFloat16, DType::kFloat32, count, false, [&](size_t first, size_t) {
        return BoundedRun{widened.data() + first, other.data() + first, bounds.data() + first};
      });
  const ComparePartial wanted =
      CompareBlock(DType::kFloat16, half_bytes, DType::kFloat32, float_bytes, count);
  EXPECT_EQ(found.sums.max_relative_error, wanted.max_relative_error);
  const BoundedPartial turned =
      CompareBounded(DType::kFloat32, DType::kFloat16, count, false, [&](size_t first, size_t) {
        return BoundedRun{other.data() + first, widened.data() + first, bounds.data() + first};
      });
  const ComparePartial wanted_turned =
      CompareBlock(DType::kFloat32, float_bytes, DType::kFloat16, half_bytes, count);
  EXPECT_EQ(BitsOf(static_cast<float>(turned.sums.max_relative_error)),
            BitsOf(static_cast<float>(wanted_turned.max_relative_error)));
}

TEST_P(Codes, BoundedComparisonLeavesWhatIsNotFiniteToOthers) {
  std::vector<float> a(40, 1);
  const std::vector<float> b(40, 1);
  a[35] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(CompareBounded(DType::kFloat32, DType::kFloat32, 40, false, [&](size_t, size_t) {
                 return BoundedRun{a.data(), b.data(), b.data()};
               }).all_finite);
}

MSPROBE_FOR_EVERY_TABLE(Codes);

}  // namespace
}  // namespace msprobe::kernels
