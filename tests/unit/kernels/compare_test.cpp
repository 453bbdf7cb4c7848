// Known results of single cases.
#include "src/kernels/compare.h"

#include "tests/unit/kernels/test_values.h"

namespace msprobe::kernels {
namespace {

constexpr float kNanF = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfF = std::numeric_limits<float>::infinity();
constexpr double kInf = std::numeric_limits<double>::infinity();

class KnownComparison : public EveryTable {};

template <class Npu, class Bench>
ComparePartial Compare(DType npu_dtype, const std::vector<Npu>& npu, DType bench_dtype,
                       const std::vector<Bench>& bench) {
  EXPECT_EQ(npu.size(), bench.size());
  return CompareTensors(npu_dtype, BytesOf(npu).data(), bench_dtype, BytesOf(bench).data(),
                        npu.size());
}

ComparePartial CompareFloats(const std::vector<float>& npu, const std::vector<float>& bench) {
  return Compare(DType::kFloat32, npu, DType::kFloat32, bench);
}

std::vector<uint16_t> Halves(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float value : values) {
    bits.push_back(tensor::FloatToFloat16(value));
  }
  return bits;
}

double Cosine(const ComparePartial& partial) {
  return partial.dot / (std::sqrt(partial.npu_square_sum) * std::sqrt(partial.bench_square_sum));
}

TEST_P(KnownComparison, ABenchOfZerosMakesTheRelativeErrorHuge) {
  const ComparePartial partial = CompareFloats({1, 1, 1, 1}, {0, 0, 0, 0});
  EXPECT_EQ(partial.max_relative_error, 4503599627370496.0);
  EXPECT_EQ(partial.max_abs_error, 1.0);
  EXPECT_EQ(partial.below_one_thousandth_count, 0U);
  EXPECT_EQ(partial.bench_square_sum, 0.0);
}

TEST_P(KnownComparison, ZerosAgainstZerosAgree) {
  const ComparePartial partial = CompareFloats({0, -0.0F, 0, 0}, {0, 0, -0.0F, 0});
  EXPECT_EQ(partial.max_relative_error, 0.0);
  EXPECT_EQ(partial.below_one_thousandth_count, 4U);
  EXPECT_EQ(partial.different_count, 0U);
}

TEST_P(KnownComparison, BoolsAreComparedInDouble) {
  const ComparePartial partial = Compare(DType::kBool, std::vector<uint8_t>{1, 0, 1, 1},
                                         DType::kBool, std::vector<uint8_t>{1, 1, 1, 0});
  EXPECT_NEAR(Cosine(partial), 0.666666666667, 1e-12);
  EXPECT_DOUBLE_EQ(std::sqrt(partial.difference_square_sum), 1.414213562373095);
  EXPECT_EQ(partial.max_abs_error, 1.0);
  EXPECT_EQ(partial.max_relative_error, 4503599627370496.0);
  EXPECT_EQ(partial.below_one_thousandth_count, 2U);
  EXPECT_EQ(partial.below_five_thousandths_count, 2U);
}

TEST_P(KnownComparison, Float16DifferencesOverflowToInfinity) {
  const ComparePartial partial =
      Compare(DType::kFloat16, Halves({6e4F, -6e4F}), DType::kFloat16, Halves({-6e4F, 6e4F}));
  EXPECT_DOUBLE_EQ(Cosine(partial), -1.0);
  EXPECT_DOUBLE_EQ(std::sqrt(partial.difference_square_sum), 169705.6274847714);
  EXPECT_EQ(partial.max_abs_error, 120000.0);
  EXPECT_EQ(partial.max_relative_error, kInf);
  EXPECT_EQ(partial.below_five_thousandths_count, 0U);
}

TEST_P(KnownComparison, EpsilonVanishesInFloat16) {
  EXPECT_EQ(Compare(DType::kFloat16, Halves({1}), DType::kFloat16, Halves({0})).max_relative_error,
            kInf);
  const ComparePartial zeros =
      Compare(DType::kFloat16, Halves({0, 1}), DType::kFloat16, Halves({0, 1}));
  EXPECT_TRUE(std::isnan(zeros.max_relative_error));
  EXPECT_EQ(zeros.below_one_thousandth_count, 1U);
}

TEST_P(KnownComparison, Float16QuotientsAreRoundedToFloat16) {
  EXPECT_EQ(
      Compare(DType::kFloat16, Halves({1.5F}), DType::kFloat16, Halves({1.25F})).max_relative_error,
      0.199951171875);
}

TEST_P(KnownComparison, IntegersAgainstZero) {
  const ComparePartial partial =
      Compare(DType::kInt32, std::vector<int32_t>{7}, DType::kInt32, std::vector<int32_t>{0});
  EXPECT_EQ(partial.max_abs_error, 7.0);
  EXPECT_EQ(partial.max_relative_error, 3.152519739159347e+16);
}

TEST_P(KnownComparison, MatchingNanIsZeroOnBothSides) {
  const ComparePartial partial = CompareFloats({kNanF}, {kNanF});
  EXPECT_EQ(partial.nonfinite_match_count, 1U);
  EXPECT_EQ(partial.nonfinite_mismatch_count, 0U);
  EXPECT_EQ(partial.max_relative_error, 0.0);
  EXPECT_EQ(partial.below_one_thousandth_count, 1U);
}

TEST_P(KnownComparison, OppositeInfinitiesMatchButAreTold) {
  const ComparePartial partial = CompareFloats({kInfF, -kInfF, kInfF}, {-kInfF, kInfF, kInfF});
  EXPECT_EQ(partial.nonfinite_match_count, 3U);
  EXPECT_EQ(partial.opposite_inf_count, 2U);
  EXPECT_EQ(partial.max_abs_error, 0.0);
}

TEST_P(KnownComparison, NanAgainstInfinityOrNumberIsAMismatch) {
  const ComparePartial partial =
      CompareFloats({kNanF, kNanF, 1.0F, 2.0F}, {kInfF, 1.0F, -kInfF, 2.0F});
  EXPECT_EQ(partial.nonfinite_mismatch_count, 3U);
  EXPECT_EQ(partial.element_count, 4U);
  EXPECT_EQ(partial.npu_square_sum, 4.0);
}

TEST_P(KnownComparison, MatchingNanInFloat16LeavesARelativeErrorOfNan) {
  const std::vector<uint16_t> nan = {0x7E00};
  EXPECT_TRUE(std::isnan(Compare(DType::kFloat16, nan, DType::kFloat16, nan).max_relative_error));
}

TEST_P(KnownComparison, AFloat32SideRoundsTheEpsilonItIsGivenEvenAgainstDoubles) {
  const ComparePartial partial =
      Compare(DType::kFloat32, std::vector<float>{1}, DType::kFloat64, std::vector<double>{0});
  EXPECT_EQ(partial.max_relative_error, 4503599627370495.0);
}

TEST_P(KnownComparison, ThresholdsAreRoundedToTheArithmetic) {
  // A relative error of exactly float32(0.005), which is less than 0.005.
  const float error = 0.005F;
  const ComparePartial partial = CompareFloats({1.0F + 0x1p-8F}, {1.0F});
  EXPECT_EQ(partial.below_five_thousandths_count, 1U);
  EXPECT_EQ(CompareFloats({0x1p-30F + error * 0x1p-30F}, {0x1p-30F}).different_count, 1U);
}

TEST_P(KnownComparison, ATinyBenchIsNotTakenForZero) {
  const ComparePartial partial = CompareFloats({1e-40F}, {2e-40F});
  EXPECT_NEAR(partial.max_relative_error, 0.5, 1e-4);
}

TEST_P(KnownComparison, AtLeastFloat32WidensHalvesAndAddsItsOwnEpsilonToZeros) {
  constexpr RelativeArithmetic kRule = RelativeArithmetic::kAtLeastFloat32;
  // 40 elements: vectors and the rest behind them.
  std::vector<float> npu(40, 1.5F);
  std::vector<float> bench(40, 1.25F);
  const std::vector<uint16_t> half_npu = Halves(npu);
  const std::vector<uint16_t> half_bench = Halves(bench);
  const ComparePartial halves =
      CompareTensors(DType::kFloat16, BytesOf(half_npu).data(), DType::kFloat16,
                     BytesOf(half_bench).data(), npu.size(), kRule);
  EXPECT_EQ(halves.max_relative_error, static_cast<double>(0.25F / 1.25F));
  npu[33] = 9;
  bench[33] = 0;
  const ComparePartial floats = CompareTensors(DType::kFloat32, BytesOf(npu).data(),
                                               DType::kFloat32, BytesOf(bench).data(), 40, kRule);
  EXPECT_EQ(floats.max_relative_error, 75497472.0);
  const std::vector<double> wide_npu(40, 1);
  const std::vector<double> wide_bench(40, 0);
  const ComparePartial doubles =
      CompareTensors(DType::kFloat64, BytesOf(wide_npu).data(), DType::kFloat64,
                     BytesOf(wide_bench).data(), 40, kRule);
  EXPECT_EQ(doubles.max_relative_error, 4503599627370496.0);
}

MSPROBE_FOR_EVERY_TABLE(KnownComparison);

TEST(MergeCompare, KeepsANanRelativeErrorFromEitherSide) {
  ComparePartial nan;
  nan.max_relative_error = std::numeric_limits<double>::quiet_NaN();
  ComparePartial number;
  number.max_relative_error = 2;
  ComparePartial first = nan;
  MergeCompare(first, number);
  EXPECT_TRUE(std::isnan(first.max_relative_error));
  MergeCompare(number, nan);
  EXPECT_TRUE(std::isnan(number.max_relative_error));
}

}  // namespace
}  // namespace msprobe::kernels
