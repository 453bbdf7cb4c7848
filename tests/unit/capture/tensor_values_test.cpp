// The rules by which tensors become statistics and checksums.
#include "src/capture/tensor_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "msprobe/capture.h"

#include "src/json/writer.h"
#include "src/kernels/crc32.h"
#include "src/tensor/float_bits.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::capture {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename Element>
TensorView ViewOf(DType dtype, const std::vector<Element>& values, Shape shape) {
  return test_support::ViewOf(values, std::move(shape), dtype);
}

std::vector<uint16_t> Halves(std::initializer_list<float> values) {
  std::vector<uint16_t> bits;
  for (const float value : values) {
    bits.push_back(tensor::FloatToFloat16(value));
  }
  return bits;
}

std::vector<uint16_t> BFloats(std::initializer_list<float> values) {
  std::vector<uint16_t> bits;
  for (const float value : values) {
    bits.push_back(tensor::FloatToBFloat16(value));
  }
  return bits;
}

std::string Spell(const Statistics& statistics) {
  std::string out;
  json::Writer json(out, -1);
  json.BeginArray();
  for (const StatisticValue& value : statistics) {
    PutStatistic(value, json);
  }
  json.EndArray();
  return out;
}

constexpr StatisticRules kHigh{};
constexpr StatisticRules kLow{Precision::kLow, false, false};
constexpr StatisticRules kNumpy{Precision::kHigh, true, false};

std::string Statistics4(const TensorView& view, const StatisticRules& rules) {
  ValueRequest request;
  request.rules = rules;
  return Spell(ExamineTensor(view, request).statistics);
}

TEST(TensorValues, AreMaxMinMeanAndNorm) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(Statistics4(ViewOf(DType::kFloat32, values, {2, 3}), kHigh),
            "[5.0, 0.0, 2.5, 7.416198253631592]");
  EXPECT_EQ(Statistics4(ViewOf(DType::kFloat32, values, {6}), kLow),
            "[5.0, 0.0, 2.5, 7.416198253631592]");
}

TEST(TensorValues, OfAScalarAreTheValueAndItsMagnitude) {
  EXPECT_EQ(Statistics4(ViewOf<float>(DType::kFloat32, {-2.5F}, {}), kHigh),
            "[-2.5, -2.5, -2.5, 2.5]");
  EXPECT_EQ(Statistics4(ViewOf<float>(DType::kFloat32, {-2.5F}, {}), kLow),
            "[-2.5, -2.5, -2.5, -2.5]");
  EXPECT_EQ(Statistics4(ViewOf<double>(DType::kFloat64, {1e300}, {}), kLow),
            "[1e+300, 1e+300, 1e+300, 1e+300]");
}

TEST(TensorValues, OfIntegerScalarsKeepEveryDigit) {
  EXPECT_EQ(Statistics4(ViewOf<int64_t>(DType::kInt64, {-9007199254740993}, {}), kHigh),
            "[-9007199254740993, -9007199254740993, -9007199254740993, 9007199254740993]");
  EXPECT_EQ(Statistics4(ViewOf<uint64_t>(DType::kUInt64, {UINT64_MAX}, {}), kHigh),
            "[18446744073709551615, 18446744073709551615, 18446744073709551615, "
            "18446744073709551615]");
  EXPECT_EQ(Statistics4(ViewOf<int64_t>(DType::kInt64, {INT64_MIN}, {}), kHigh),
            "[-9223372036854775808, -9223372036854775808, -9223372036854775808, "
            "9223372036854775808]");
  EXPECT_EQ(Statistics4(ViewOf<int8_t>(DType::kInt8, {-7}, {}), kLow), "[-7, -7, -7, -7]");
}

TEST(TensorValues, OfIntegersAreFloats) {
  EXPECT_EQ(Statistics4(ViewOf<uint8_t>(DType::kUInt8, {200, 5}, {2}), kLow),
            "[200.0, 5.0, 102.5, 200.06248474121094]");
  EXPECT_EQ(Statistics4(ViewOf<int64_t>(DType::kInt64, {int64_t{1} << 53, 3}, {2}), kHigh),
            "[9007199254740992.0, 3.0, 4503599627370498.0, 9007199254740992.0]");
  EXPECT_EQ(Statistics4(ViewOf<int32_t>(DType::kInt32, {16777217}, {1}), kHigh),
            "[16777217.0, 16777217.0, 16777217.0, 16777217.0]");
  EXPECT_EQ(Statistics4(ViewOf<int32_t>(DType::kInt32, {16777217}, {1}), kLow),
            "[16777216.0, 16777216.0, 16777216.0, 16777216.0]");
}

TEST(TensorValues, OfFloat64KeepTheirRange) {
  const std::vector<double> values = {1e300, 2};
  EXPECT_EQ(Statistics4(ViewOf(DType::kFloat64, values, {2}), kHigh),
            "[1e+300, 2.0, 5e+299, Infinity]");
  EXPECT_EQ(Statistics4(ViewOf(DType::kFloat64, values, {2}), kLow),
            "[Infinity, 2.0, Infinity, Infinity]");
}

TEST(TensorValues, OfFiniteHalvesAreNeverInfinite) {
  const std::vector<uint16_t> values = Halves({60000, 60000});
  EXPECT_EQ(Statistics4(ViewOf(DType::kFloat16, values, {2}), kHigh),
            "[60000.0, 60000.0, 60000.0, 84852.8125]");
  // The reference's sum of squares does not fit into float16.
  EXPECT_EQ(Statistics4(ViewOf(DType::kFloat16, values, {2}), kLow),
            "[60000.0, 60000.0, 60000.0, Infinity]");
  const std::vector<float> large = {3e38F, 3e38F};
  EXPECT_EQ(Statistics4(ViewOf(DType::kFloat32, large, {2}), kHigh),
            "[3.0000000054977558e+38, 3.0000000054977558e+38, 3.0000000054977558e+38, "
            "4.2426406948942856e+38]");
}

TEST(TensorValues, OfBFloat16AreRoundedToItInLowPrecision) {
  const std::vector<uint16_t> values = BFloats({1, 3, 5.09375F});
  EXPECT_EQ(Statistics4(ViewOf(DType::kBFloat16, values, {3}), kLow),
            "[5.09375, 1.0, 3.03125, 6.0]");
  EXPECT_EQ(Statistics4(ViewOf(DType::kBFloat16, values, {3}), kHigh),
            "[5.09375, 1.0, 3.03125, 5.995522499084473]");
}

TEST(TensorValues, OfBooleansAreAnyAndAll) {
  EXPECT_EQ(Statistics4(ViewOf<uint8_t>(DType::kBool, {1, 0}, {2}), kHigh),
            "[true, false, null, null]");
  EXPECT_EQ(Statistics4(ViewOf<uint8_t>(DType::kBool, {1}, {}), kHigh), "[true, true, null, null]");
}

TEST(TensorValues, OfComplexNumbersAreThoseOfTheirMagnitudes) {
  const std::vector<float> values = {3, 4, 0, 1};
  EXPECT_EQ(Statistics4(ViewOf(DType::kComplex64, values, {2}), kHigh),
            "[5.0, 1.0, 3.0, 5.099019527435303]");
  EXPECT_EQ(Statistics4(ViewOf(DType::kComplex64, values, {2}), kLow), "[5.0, 1.0, 3.0, null]");
  EXPECT_EQ(Statistics4(ViewOf(DType::kComplex64, values, {2}), {Precision::kLow, false, true}),
            "[5.0, 1.0, 3.0, 5.099019527435303]");
}

TEST(TensorValues, AreNanWhereAnyElementIs) {
  const std::vector<float> values = {1, NAN, INFINITY, -INFINITY};
  const TensorView view = ViewOf(DType::kFloat32, values, {4});
  EXPECT_EQ(Statistics4(view, kHigh), "[NaN, NaN, NaN, NaN]");
  ValueRequest request;
  request.extended = true;
  const TensorValues found = ExamineTensor(view, request);
  EXPECT_EQ(found.counts.nan_count, 1U);
  EXPECT_EQ(found.counts.positive_inf_count, 1U);
  EXPECT_EQ(found.counts.negative_inf_count, 1U);
  EXPECT_EQ(found.finite_max, 1.0);
  EXPECT_EQ(found.finite_min, 1.0);
  EXPECT_TRUE(found.overflowed());
}

TEST(TensorValues, ShowInfinitiesAndCallThemOverflow) {
  const std::vector<float> mask = {0, -INFINITY};
  const TensorView view = ViewOf(DType::kFloat32, mask, {2});
  EXPECT_EQ(Statistics4(view, kHigh), "[0.0, -Infinity, -Infinity, Infinity]");
  EXPECT_TRUE(ExamineTensor(view, {}).overflowed());
  const std::vector<float> finite = {0, 3e38F};
  EXPECT_FALSE(ExamineTensor(ViewOf(DType::kFloat32, finite, {2}), {}).overflowed());
}

TEST(TensorValues, OfNumpyArraysAreOfTheirOwnType) {
  EXPECT_EQ(Statistics4(ViewOf<double>(DType::kFloat64, {0, 3}, {2}), kNumpy),
            "[3.0, 0.0, 1.5, 3.0]");
  EXPECT_EQ(Statistics4(ViewOf<int64_t>(DType::kInt64, {4, 3}, {2}), kNumpy), "[4, 3, 3.5, 5.0]");
}

TEST(TensorValues, OfAStridedViewAreThoseOfItsElementsInOrder) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  TensorView view = ViewOf(DType::kFloat32, values, {3, 2});
  view.strides = {1, 3};  // the transpose
  ValueRequest request;
  request.crc32 = true;
  std::vector<float> copy(6);
  request.copy_to = reinterpret_cast<std::byte*>(copy.data());
  const TensorValues found = ExamineTensor(view, request);
  const std::vector<float> transposed = {0, 3, 1, 4, 2, 5};
  EXPECT_EQ(copy, transposed);
  EXPECT_EQ(found.crc32, kernels::Crc32(std::as_bytes(std::span(transposed))));
  EXPECT_EQ(found.copy_crc32, found.crc32);
  EXPECT_EQ(Spell(found.statistics), "[5.0, 0.0, 2.5, 7.416198253631592]");
}

TEST(TensorValues, AreTheSameWhetherATensorLiesInOnePieceOrNot) {
  constexpr int64_t kRows = 700;
  constexpr int64_t kColumns = 1000;
  std::vector<float> wide(static_cast<size_t>(kRows * kColumns * 2));
  std::vector<float> dense;
  for (size_t i = 0; i < wide.size(); ++i) {
    wide[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    if (i % 2 == 0) {
      dense.push_back(wide[i]);
    }
  }
  TensorView strided = ViewOf(DType::kFloat32, wide, {kRows, kColumns});
  strided.strides = {2 * kColumns, 2};
  const TensorView plain = ViewOf(DType::kFloat32, dense, {kRows, kColumns});
  ValueRequest request;
  request.crc32 = true;
  request.xor64 = true;
  const TensorValues a = ExamineTensor(strided, request);
  const TensorValues b = ExamineTensor(plain, request);
  EXPECT_EQ(Spell(a.statistics), Spell(b.statistics));
  EXPECT_EQ(a.crc32, b.crc32);
  EXPECT_EQ(a.xor64, b.xor64);
}

std::string Checksum(const TensorView& view) {
  ValueRequest request;
  request.crc32 = true;
  return fmt::format("{:08x}", ExamineTensor(view, request).crc32.value_or(0));
}

TEST(TensorValues, HaveTheChecksumOfTheBytesAndOfTheFloatsWhereNumpyHasNoType) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(Checksum(ViewOf(DType::kFloat32, values, {6})), "91e79017");
  EXPECT_EQ(Checksum(ViewOf<uint8_t>(DType::kBool, {1, 0}, {2})), "58c223be");
  EXPECT_EQ(Checksum(ViewOf<int8_t>(DType::kInt8, {-128, 5}, {2})), "0a307e3b");
  EXPECT_EQ(Checksum(ViewOf(DType::kFloat16, Halves({60000, 60000}), {2})), "f6195ec2");
  EXPECT_EQ(Checksum(ViewOf(DType::kBFloat16, BFloats({1, 3, 5.09375F}), {3})), "c8053cf2");
  EXPECT_EQ(Checksum(ViewOf<double>(DType::kFloat64, {1e300}, {})), "1167b962");
}

TEST(TensorValues, HaveTheXorOfTheirWords) {
  ValueRequest request;
  request.statistics = false;
  request.xor64 = true;
  EXPECT_EQ(ExamineTensor(ViewOf<int64_t>(DType::kInt64, {5, 3, -1}, {3}), request).xor64,
            5 ^ 3 ^ -1);
  EXPECT_EQ(ExamineTensor(ViewOf<uint8_t>(DType::kUInt8, {1, 2, 3}, {3}), request).xor64, 0x030201);
  EXPECT_FALSE(ExamineTensor(ViewOf<uint8_t>(DType::kUInt8, {1}, {1}), request).scalar.has_value());
  // Of a tensor without dimensions, its value.
  EXPECT_EQ(ExamineTensor(ViewOf<int32_t>(DType::kInt32, {-4}, {}), request).scalar->integer, -4);
  EXPECT_EQ(ExamineTensor(ViewOf<float>(DType::kFloat32, {0.5F}, {}), request).scalar->number, 0.5);
  EXPECT_TRUE(ExamineTensor(ViewOf<uint8_t>(DType::kBool, {1}, {}), request).scalar->truth);
}

TEST(TensorValues, ReducedElsewhereAreSpelledByTheSameRules) {
  EXPECT_EQ(Spell(SpellStatistics(DType::kBool, false, {1, 0, 0.5, 1}, kHigh)),
            "[true, false, null, null]");
  EXPECT_EQ(Spell(SpellStatistics(DType::kInt64, true, {-3, -3, -3, 3}, kHigh)), "[-3, -3, -3, 3]");
  EXPECT_EQ(Spell(SpellStatistics(DType::kInt32, false, {4, 3, 3.5, 5}, kHigh)),
            "[4.0, 3.0, 3.5, 5.0]");
  EXPECT_EQ(Spell(SpellStatistics(DType::kFloat32, false, {0.1, kInfinity, NAN, 1}, kHigh)),
            "[0.10000000149011612, Infinity, NaN, 1.0]");
}

using Four = std::array<double, 4>;

TEST(FloatStatistics, AreNumbersOfFloat32) {
  EXPECT_EQ(FloatStatistics(ViewOf<float>(DType::kFloat32, {0, 1, 2}, {3}), true),
            (Four{2, 0, 1, static_cast<double>(std::sqrt(5.0F))}));
  const Four doubles =
      FloatStatistics(ViewOf<double>(DType::kFloat64, {0.1, 1e300, -0.2}, {3}), true);
  EXPECT_EQ(doubles[0], kInfinity);
  EXPECT_EQ(doubles[1], static_cast<double>(-0.2F));
  EXPECT_EQ(FloatStatistics(ViewOf<int64_t>(DType::kInt64, {(1 << 24) + 1}, {}), true),
            (Four{0x1p24, 0x1p24, 0x1p24, 0x1p24}));
  EXPECT_EQ(FloatStatistics(ViewOf<uint8_t>(DType::kBool, {1, 0, 1, 1}, {4}), true),
            (Four{1, 0, 0.75, static_cast<double>(std::sqrt(3.0F))}));
}

TEST(FloatStatistics, OfHalvesKeepTheirTypeOnRequest) {
  const std::vector<uint16_t> halves = Halves({1, 1, 1.0009765625F});
  const Four kept = FloatStatistics(ViewOf(DType::kFloat16, halves, {3}), true);
  EXPECT_EQ(kept, (Four{1.0009765625, 1, 1, 1.732421875}));
  const Four wide = FloatStatistics(ViewOf(DType::kFloat16, halves, {3}), false);
  EXPECT_EQ(wide[2], static_cast<double>((2 + 1.0009765625F) / 3));
  const std::vector<uint16_t> large = Halves({60000, 60000});
  EXPECT_EQ(FloatStatistics(ViewOf(DType::kFloat16, large, {2}), true)[3], kInfinity);
  EXPECT_TRUE(std::isfinite(FloatStatistics(ViewOf(DType::kFloat16, large, {2}), false)[3]));
  const std::vector<uint16_t> brains = BFloats({1, 2, 2});
  EXPECT_EQ(FloatStatistics(ViewOf(DType::kBFloat16, brains, {3}), true),
            (Four{2, 1, 1.6640625, 3}));
}

TEST(FloatStatistics, SeeOnlyTheElementsOfAView) {
  const std::vector<float> values = {0, 100, 1, 100, 2, 100};
  TensorView view = ViewOf(DType::kFloat32, values, {3});
  view.strides = {2};
  EXPECT_EQ(FloatStatistics(view, false)[0], 2);
  view.negated = true;
  EXPECT_EQ(FloatStatistics(view, false)[1], -2);
}

TEST(FloatStatistics, AreTheSameForManyBlocks) {
  const std::vector<int32_t> ones(200001, 1);
  const Four found = FloatStatistics(ViewOf(DType::kInt32, ones, {200001}), false);
  EXPECT_EQ(found, (Four{1, 1, 1, static_cast<double>(std::sqrt(200001.0F))}));
}

TEST(FloatStatistics, ThroughTheFaceInC) {
  const std::vector<float> values = {3, -4};
  const int64_t shape = 2;
  msprobe_tensor tensor = {};
  tensor.dtype_code = MSPROBE_FLOAT32;
  tensor.shape = &shape;
  tensor.dimensions = 1;
  tensor.data = values.data();
  Four found = {};
  ASSERT_EQ(msprobe_tensor_statistics(&tensor, MSPROBE_ROUND_TO_FLOAT32, found.data()), MSPROBE_OK);
  EXPECT_EQ(found, (Four{3, -4, -0.5, 5}));
  EXPECT_NE(msprobe_tensor_statistics(&tensor, MSPROBE_ROUND_TO_FLOAT32, nullptr), MSPROBE_OK);
  EXPECT_NE(msprobe_tensor_statistics(nullptr, MSPROBE_ROUND_TO_FLOAT32, found.data()), MSPROBE_OK);
  const auto refuses = [&](auto change) {
    msprobe_tensor changed = tensor;
    change(changed);
    return msprobe_tensor_statistics(&changed, MSPROBE_ROUND_TO_FLOAT32, found.data()) ==
           MSPROBE_ERROR_USAGE;
  };
  const int64_t none = 0;
  const int64_t backwards = -1;
  EXPECT_TRUE(refuses([](msprobe_tensor& t) { t.data = nullptr; }));
  EXPECT_TRUE(refuses([](msprobe_tensor& t) { t.dtype_code = MSPROBE_DTYPE_UNKNOWN; }));
  EXPECT_TRUE(refuses([](msprobe_tensor& t) { t.device = MSPROBE_DEVICE_CUDA; }));
  EXPECT_TRUE(refuses([](msprobe_tensor& t) { t.dimensions = 1000; }));
  EXPECT_TRUE(refuses([&](msprobe_tensor& t) { t.shape = &none; }));
  EXPECT_TRUE(refuses([&](msprobe_tensor& t) { t.strides = &backwards; }));
}

TEST(CaptureApi, KnowsTheSizesOfDTypes) {
  EXPECT_EQ(msprobe_dtype_bytes(MSPROBE_COMPLEX128), 16U);
  EXPECT_EQ(msprobe_dtype_bytes(MSPROBE_BFLOAT16), 2U);
  EXPECT_EQ(msprobe_dtype_bytes(MSPROBE_BOOL), 1U);
  EXPECT_EQ(msprobe_dtype_bytes(MSPROBE_DTYPE_UNKNOWN), 0U);
  EXPECT_EQ(msprobe_dtype_bytes(-1), 0U);
}

TEST(SeenValues, AreThoseOfTheFirstTimeUntilTheIdentityOrManyBytesDiffer) {
  std::vector<float> values(1U << 16U, 1.0F);
  SeenValues seen;
  ValueRequest request;
  const auto max = [&](uint64_t identity) {
    const TensorValues found =
        seen.Examine(ViewOf(DType::kFloat32, values, {256, 256}), request, identity);
    return found.statistics[0].number;
  };
  EXPECT_EQ(max(7), 1);
  EXPECT_EQ(max(7), 1);
  values[12345] = 2;  // the caller knows of the write
  EXPECT_EQ(max(8), 2);
  std::fill(values.begin(), values.end(), 3.0F);  // and of this one it does not
  EXPECT_EQ(max(8), 3);
  // A row of 16 KiB is always met.
  std::fill_n(values.begin() + 8192, 8192, 4.0F);
  EXPECT_EQ(max(8), 4);
  EXPECT_EQ(max(8 + 1024), 4);  // comes to the same place
  EXPECT_EQ(max(8), 4);
}

TEST(SeenValues, AnswerForWhatWasAskedThen) {
  const std::vector<float> values(1U << 16U, 1.0F);
  const TensorView view = ViewOf(DType::kFloat32, values, {256, 256});
  SeenValues seen;
  ValueRequest request;
  EXPECT_FALSE(seen.Examine(view, request, 1).crc32.has_value());
  request.crc32 = true;
  EXPECT_EQ(seen.Examine(view, request, 1).crc32, ExamineTensor(view, request).crc32);
  std::vector<std::byte> copy(view.size_bytes());
  request.copy_to = copy.data();
  EXPECT_EQ(seen.Examine(view, request, 1).crc32, ExamineTensor(view, request).crc32);
  EXPECT_EQ(std::memcmp(copy.data(), values.data(), copy.size()), 0);
}

}  // namespace
}  // namespace msprobe::capture
