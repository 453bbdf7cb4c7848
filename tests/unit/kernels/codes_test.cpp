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
#include "src/kernels/kernel_table.h"
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

constexpr ByteCode kByteCodes[] = {ByteCode::kFloat8E4M3, ByteCode::kFloat8E5M2, ByteCode::kInt8};

ByteRule RuleOfBytes() {
  return {.inner_steps = 0.5F, .end_steps = 2, .relative = 0x1p-8F, .most_steps = 0.25F};
}

// Every code, in runs with and without those that are no numbers, with scales of any size.
TEST_P(Codes, BytesAreTheirNumbersAndGaps) {
  std::vector<std::byte> codes;
  for (unsigned i = 0; i < 259; ++i) {
    codes.push_back(static_cast<std::byte>(i));
  }
  const ByteRule rule = RuleOfBytes();
  for (const float scale : {-0.75F, 0.013F, 0x1.8p-130F, 0x1.8p124F, 0x1p127F}) {
    for (const ByteCode code : kByteCodes) {
      for (const size_t group : {16, 48, 300}) {
        const std::vector<float> scales(codes.size() / group + 1, scale);
        std::vector<float> values(codes.size());
        std::vector<float> bounds(codes.size());
        DecodeBytes(code, codes.data(), codes.size(), rule, scales.data(), group, values.data(),
                    bounds.data());
        for (size_t i = 0; i < codes.size(); ++i) {
          const float number = NumberOf(code, static_cast<uint8_t>(i));
          ASSERT_EQ(BitsOf(values[i]), BitsOf(number * scale)) << i << " " << scale;
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
          if (std::isfinite(bound * scale)) {
            ASSERT_NEAR(bounds[i], bound * std::fabs(scale),
                        bound * std::fabs(scale) * 0x1p-21F + 0x1p-148F)
                << static_cast<int>(code) << " " << i;
          }
        }
        std::vector<float> alone(codes.size());
        DecodeBytes(code, codes.data(), codes.size(), rule, scales.data(), group, alone.data(),
                    nullptr);
        for (size_t i = 0; i < codes.size(); ++i) {
          ASSERT_EQ(BitsOf(values[i]), BitsOf(alone[i]));
        }
      }
    }
  }
}

TEST_P(Codes, BytesHaveTheBitsOfThePlainLoop) {
  std::mt19937 random(3);
  const ByteRule rule = RuleOfBytes();
  for (const ByteCode code : kByteCodes) {
    for (int trial = 0; trial < 200; ++trial) {
      std::vector<std::byte> codes(256);
      for (std::byte& byte : codes) {
        byte = static_cast<std::byte>(random() % (trial < 100 ? 0x7C : 256));
      }
      const float scale = std::bit_cast<float>(static_cast<uint32_t>(random()) & 0xBFFFFFFFU);
      std::vector<float> values(256);
      std::vector<float> bounds(256);
      DecodeBytes(code, codes.data(), 256, rule, &scale, 256, values.data(), bounds.data());
      std::vector<float> plain_values(256);
      std::vector<float> plain_bounds(256);
      internal::PlainTable().bytes(code, codes.data(), 256, rule, scale, plain_values.data(),
                                   plain_bounds.data());
      for (size_t i = 0; i < 256; ++i) {
        ASSERT_EQ(BitsOf(values[i]), BitsOf(plain_values[i])) << static_cast<int>(codes[i]);
        ASSERT_EQ(BitsOf(bounds[i]), BitsOf(plain_bounds[i])) << static_cast<int>(codes[i]);
      }
    }
  }
}

TEST_P(Codes, NibblesAreEntriesOfTheScaledTable) {
  NibbleRule rule;
  for (size_t i = 0; i < 16; ++i) {
    rule.numbers[i] = static_cast<float>(i * i) - 3;
    rule.steps[i] = 0.5F + static_cast<float>(i) / 8;
  }
  rule.added = 7.5F;
  rule.relative = 0x1p-8F;
  rule.most_steps = 0.25F;
  std::vector<NibbleScale> scales;
  for (int i = 0; i < 10; ++i) {
    const float scale = -0.3F * static_cast<float>(i + 1);
    scales.push_back({static_cast<float>(5 - i), scale, -scale + 0.01F, 0.01F});
  }
  std::mt19937 random(1);
  std::vector<std::byte> bytes(160);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random());
  }
  for (const NibbleOrder order : {NibbleOrder::kLowFirst, NibbleOrder::kHighFirst}) {
    for (size_t count = 0; count < 150; ++count) {
      const size_t group = count % 3 == 0 ? 150 : count % 3 == 1 ? 32 : 18;
      std::vector<float> values(count + 1, 99);
      std::vector<float> bounds(count + 1, 99);
      DecodeNibbles(bytes.data() + 1, count, order, rule, scales.data(), group, values.data(),
                    bounds.data());
      for (size_t i = 0; i < count; ++i) {
        const NibbleScale& scale = scales[i / group];
        const auto byte = static_cast<unsigned>(bytes[1 + i / 2]);
        const bool low = (i % 2 == 0) == (order == NibbleOrder::kLowFirst);
        const unsigned code = low ? byte & 15U : byte >> 4U;
        const float number = rule.numbers[code] - scale.zero;
        const float more = std::min((std::fabs(number) + 7.5F) * 0x1p-8F, 0.25F);
        const float bound = scale.reach * (rule.steps[code] + more);
        ASSERT_EQ(values[i], number * scale.scale);
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

// A run of float32, or of one side as bfloat16.
class BoundedSides {
 public:
  BoundedSides(BoundedForm form, std::vector<float>& a, std::vector<float>& b)
      : a_(a), b_(b), form_(form) {
    Round(form == BoundedForm::kBFloat16Npu, a, rounded_a_);
    Round(form == BoundedForm::kBFloat16Bench, b, rounded_b_);
  }
  BoundedRun Run(size_t first, const std::vector<float>& bounds) const {
    return {At(a_, rounded_a_, first), At(b_, rounded_b_, first), bounds.data() + first};
  }
  BoundedForm form() const { return form_; }

 private:
  static void Round(bool is_rounded, std::vector<float>& values, std::vector<uint16_t>& rounded) {
    for (size_t i = 0; is_rounded && i < values.size(); ++i) {
      rounded.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i]) >> 16U));
      values[i] = tensor::BFloat16ToFloat(rounded[i]);
    }
  }
  static const std::byte* At(const std::vector<float>& values, const std::vector<uint16_t>& rounded,
                             size_t first) {
    return rounded.empty() ? reinterpret_cast<const std::byte*>(values.data() + first)
                           : reinterpret_cast<const std::byte*>(rounded.data() + first);
  }

  std::vector<float>& a_;
  std::vector<float>& b_;
  std::vector<uint16_t> rounded_a_;
  std::vector<uint16_t> rounded_b_;
  BoundedForm form_;
};

// The largest errors to the bit and the sums as far as float32 goes, for elements of every size,
// zeros on either side and the rules of all dtypes; and the bits of the plain implementation.
TEST_P(Codes, BoundedComparisonGivesTheSumsOfCompareBlock) {
  for (const Kind kind : {Kind::kOrdinary, Kind::kZeros, Kind::kSame, Kind::kTiny, Kind::kAny}) {
    for (const size_t count : {1, 15, 16, 100, 1023, 1024, 5000}) {
      for (const BoundedForm form :
           {BoundedForm::kFloat32, BoundedForm::kBFloat16Npu, BoundedForm::kBFloat16Bench}) {
        std::vector<float> a = ValuesOf(kind, count, 1);
        std::vector<float> b = ValuesOf(kind, count, 2);
        for (size_t i = 0; i < count && kind == Kind::kSame; ++i) {
          b[i] = i % 5 == 0 ? a[i] * 1.0001F : a[i];
        }
        const BoundedSides sides(form, a, b);
        const std::vector<float> bounds(count, 0.5F);
        uint64_t beyond = 0;
        for (size_t i = 0; i < count; ++i) {
          beyond += std::fabs(a[i] - b[i]) <= bounds[i] ? 0 : 1;
        }
        const auto compare = [&] {
          return CompareBounded(DType::kFloat32, DType::kBFloat16, form, count, count % 2 == 0,
                                [&](size_t first, size_t) { return sides.Run(first, bounds); });
        };
        const BoundedPartial found = compare();
        const ComparePartial wanted =
            CompareBlock(DType::kFloat32, reinterpret_cast<const std::byte*>(a.data()),
                         DType::kFloat32, reinterpret_cast<const std::byte*>(b.data()), count);
        if (kind == Kind::kTiny || kind == Kind::kAny) {
          EXPECT_FALSE(found.in_range);
        } else {
          double sum = 0;
          for (size_t i = 0; i < count && count % 2 == 0; ++i) {
            sum += static_cast<double>(a[i]);
          }
          const double size = std::sqrt(wanted.npu_square_sum * wanted.bench_square_sum);
          EXPECT_TRUE(found.in_range || count < 16);
          EXPECT_TRUE(Near(found.npu_sum, sum,
                           std::sqrt(wanted.npu_square_sum * static_cast<double>(count))));
          EXPECT_NEAR(found.sums.dot, wanted.dot, size * 0x1p-21);
          EXPECT_NEAR(found.sums.npu_square_sum, wanted.npu_square_sum,
                      wanted.npu_square_sum * 0x1p-21);
          EXPECT_NEAR(found.sums.bench_square_sum, wanted.bench_square_sum,
                      wanted.bench_square_sum * 0x1p-21);
          EXPECT_NEAR(found.sums.difference_square_sum, wanted.difference_square_sum,
                      wanted.difference_square_sum * 0x1p-20);
        }
        EXPECT_EQ(found.beyond, beyond);
        EXPECT_EQ(found.sums.max_abs_error, wanted.max_abs_error);
        // Products of the smallest numbers are not exact.
        if (kind != Kind::kTiny) {
          EXPECT_EQ(found.sums.max_relative_error, wanted.max_relative_error)
              << static_cast<int>(kind) << " " << count;
        }
        EXPECT_EQ(found.sums.different_count, wanted.different_count);

        const internal::KernelTable* const table = &internal::ActiveTable();
        internal::ForceTableForTesting(&internal::PlainTable());
        const BoundedPartial plain = compare();
        internal::ForceTableForTesting(table);
        if (found.in_range) {
          EXPECT_EQ(found.sums.dot, plain.sums.dot);
          EXPECT_EQ(found.sums.npu_square_sum, plain.sums.npu_square_sum);
          EXPECT_EQ(found.sums.bench_square_sum, plain.sums.bench_square_sum);
          EXPECT_EQ(found.sums.difference_square_sum, plain.sums.difference_square_sum);
          EXPECT_EQ(found.npu_sum, plain.npu_sum);
          EXPECT_EQ(found.bench_sum, plain.bench_sum);
        }
        EXPECT_EQ(found.in_range, plain.in_range);
      }
    }
  }
}

// Codes against numbers near what they stand for, some of which are farther apart than any before,
// beyond their bounds, zero or equal: the bits of decoding first and comparing then.
TEST_P(Codes, CodesAreComparedAsTheirValues) {
  constexpr size_t kCount = 8192;
  std::mt19937 random(5);
  NibbleRule nibbles;
  for (size_t i = 0; i < 16; ++i) {
    nibbles.numbers[i] = static_cast<float>(i) - 8;
    nibbles.steps[i] = i == 0 || i == 15 ? 1 : 0.5F;
  }
  std::vector<std::byte> codes(kCount);
  for (size_t trial = 0; trial < 160; ++trial) {
    const bool has_nan = trial % 8 == 7;
    const bool is_quiet = trial / 16 % 2 == 0;
    for (std::byte& code : codes) {
      const auto bits = static_cast<uint32_t>(random());
      code = static_cast<std::byte>(trial % 3 == 2 && bits % 4 != 0 ? 0 : bits);
      code = !has_nan && trial % 2 == 0 && (code & std::byte{0x7C}) == std::byte{0x7C}
                 ? std::byte{1}
                 : code;
    }
    CodedRun run;
    run.bytes = codes.data();
    run.is_nibbles = trial % 2 == 1;
    run.order = trial % 4 == 1 ? NibbleOrder::kLowFirst : NibbleOrder::kHighFirst;
    run.nibble_rule = &nibbles;
    constexpr ByteCode kCodes[] = {ByteCode::kFloat8E4M3, ByteCode::kFloat8E5M2, ByteCode::kInt8};
    run.code = kCodes[trial / 2 % 3];
    run.byte_rule = {.inner_steps = 0.5F, .end_steps = 1, .relative = 0x1p-8F};
    constexpr size_t kGroups[] = {128, 32, 16, 64, 256, 1024, 24, 8192};
    run.group = kGroups[trial / 2 % 8];
    std::vector<float> scales(kCount / 8);
    for (float& scale : scales) {
      scale = 0.01F + static_cast<float>(random() % 1000) * 0.0001F;
    }
    // As many scales as a run of 1024 elements from `first` on has.
    const auto describe = [&](size_t first) {
      CodedRun part = run;
      part.bytes += run.is_nibbles ? first / 2 : first;
      part.group = std::min(run.group, kBoundedRunElements);
      for (size_t i = 0; i < CodedRun::kMostGroups; ++i) {
        const float scale = scales[(first / run.group + i) % scales.size()];
        part.byte_scales[i] = scale;
        part.nibble_scales[i] = {0, scale, scale, 0};
      }
      return part;
    };
    std::vector<float> values(kCount);
    std::vector<float> bounds(kCount);
    for (size_t first = 0; first < kCount; first += kBoundedRunElements) {
      DecodeRun(describe(first), 0, kBoundedRunElements, values.data() + first,
                bounds.data() + first);
    }
    std::vector<float> others(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      const auto noise = static_cast<float>(static_cast<int>(random() % 2001) - 1000) * 0.001F;
      const float near = trial % 5 == 4 ? 3 * noise : is_quiet ? 0.3F * noise : 0.9F * noise;
      others[i] = values[i] + near * bounds[i];
      if (!is_quiet) {
        others[i] = random() % 50 == 0 ? 0 : random() % 900 == 0 ? others[i] * 3 : others[i];
      }
      others[i] = std::isfinite(others[i]) ? others[i] : 1;
    }
    for (const bool npu_is_coded : {true, false}) {
      const BoundedForm form =
          npu_is_coded ? BoundedForm::kBFloat16Bench : BoundedForm::kBFloat16Npu;
      std::vector<float> a = npu_is_coded ? values : others;
      std::vector<float> b = npu_is_coded ? others : values;
      const BoundedSides sides(form, a, b);
      CodedRun part;
      const auto compare = [&](size_t count, bool coded, bool sums) {
        return CompareBounded(DType::kFloat32, DType::kFloat32, form, count, sums,
                              [&](size_t first, size_t) {
                                BoundedRun of = sides.Run(first, bounds);
                                if (coded) {
                                  part = describe(first);
                                  of = {npu_is_coded ? nullptr : of.npu,
                                        npu_is_coded ? of.bench : nullptr, nullptr, &part};
                                }
                                return of;
                              });
      };
      for (const size_t count : {kCount, size_t{1000}}) {
        for (const bool sums : {false, true}) {
          const BoundedPartial found = compare(count, true, sums);
          const BoundedPartial wanted = compare(count, false, sums);
          ASSERT_EQ(found.in_range, wanted.in_range) << trial;
          if (!wanted.in_range) {
            continue;
          }
          ASSERT_EQ(found.beyond, wanted.beyond) << trial;
          ASSERT_EQ(found.sums.different_count, wanted.sums.different_count) << trial;
          ASSERT_EQ(found.sums.dot, wanted.sums.dot);
          ASSERT_EQ(found.sums.npu_square_sum, wanted.sums.npu_square_sum);
          ASSERT_EQ(found.sums.bench_square_sum, wanted.sums.bench_square_sum);
          ASSERT_EQ(found.sums.difference_square_sum, wanted.sums.difference_square_sum);
          ASSERT_EQ(found.sums.max_abs_error, wanted.sums.max_abs_error) << trial;
          ASSERT_EQ(found.sums.max_relative_error, wanted.sums.max_relative_error) << trial;
          ASSERT_EQ(found.npu_sum, wanted.npu_sum);
          ASSERT_EQ(found.bench_sum, wanted.bench_sum);
        }
      }
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
  const BoundedSides sides(BoundedForm::kFloat32, widened, other);
  const BoundedPartial found =
      CompareBounded(DType::kFloat16, DType::kFloat32, BoundedForm::kFloat32, count, false,
                     [&](size_t first, size_t) { return sides.Run(first, bounds); });
  const ComparePartial wanted =
      CompareBlock(DType::kFloat16, half_bytes, DType::kFloat32, float_bytes, count);
  EXPECT_EQ(found.sums.max_relative_error, wanted.max_relative_error);
  const BoundedSides turned_sides(BoundedForm::kFloat32, other, widened);
  const BoundedPartial turned =
      CompareBounded(DType::kFloat32, DType::kFloat16, BoundedForm::kFloat32, count, false,
                     [&](size_t first, size_t) { return turned_sides.Run(first, bounds); });
  const ComparePartial wanted_turned =
      CompareBlock(DType::kFloat32, float_bytes, DType::kFloat16, half_bytes, count);
  EXPECT_EQ(BitsOf(static_cast<float>(turned.sums.max_relative_error)),
            BitsOf(static_cast<float>(wanted_turned.max_relative_error)));
}

TEST_P(Codes, BoundedComparisonLeavesWhatIsNotFiniteToOthers) {
  std::vector<float> a(40, 1);
  std::vector<float> b(40, 1);
  a[35] = std::numeric_limits<float>::infinity();
  const BoundedSides sides(BoundedForm::kFloat32, a, b);
  EXPECT_FALSE(CompareBounded(DType::kFloat32, DType::kFloat32, BoundedForm::kFloat32, 40, false,
                              [&](size_t, size_t) { return sides.Run(0, b); })
                   .in_range);
}

MSPROBE_FOR_EVERY_TABLE(Codes);

}  // namespace
}  // namespace msprobe::kernels
