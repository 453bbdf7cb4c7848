#include "src/kernels/stats.h"

#include "tests/unit/kernels/test_values.h"

namespace msprobe::kernels {
namespace {

constexpr float kStatsNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kStatsInf = std::numeric_limits<float>::infinity();

TensorStats StatsOf(const std::vector<float>& values) {
  return ComputeStats(DType::kFloat32, BytesOf(values));
}

TEST(ComputeStats, NanPoisonsMaxMinMeanAndNormAsTheFrameworksDo) {
  const TensorStats stats = StatsOf({1.0F, kStatsNan, -2.0F, kStatsInf});
  EXPECT_TRUE(std::isnan(stats.max));
  EXPECT_TRUE(std::isnan(stats.min));
  EXPECT_TRUE(std::isnan(stats.mean));
  EXPECT_TRUE(std::isnan(stats.norm));
  EXPECT_EQ(stats.nan_count, 1U);
  EXPECT_EQ(stats.positive_inf_count, 1U);
}

TEST(ComputeStats, KeepsInfinitiesInMaxAndMin) {
  const TensorStats stats = StatsOf({1.0F, kStatsInf, -kStatsInf});
  EXPECT_EQ(stats.max, kStatsInf);
  EXPECT_EQ(stats.min, -kStatsInf);
  EXPECT_TRUE(std::isnan(stats.mean));
  EXPECT_EQ(stats.norm, kStatsInf);
}

TEST(ComputeStats, OfNothingHasNoMaxButANormOfZero) {
  const TensorStats stats = StatsOf({});
  EXPECT_TRUE(std::isnan(stats.max));
  EXPECT_TRUE(std::isnan(stats.mean));
  EXPECT_EQ(stats.norm, 0);
  EXPECT_EQ(stats.element_count, 0U);
}

TEST(ComputeStats, ReportsZerosOfEitherSignAsPositiveZero) {
  const TensorStats stats = StatsOf({-0.0F, -0.0F});
  EXPECT_FALSE(std::signbit(stats.max));
  EXPECT_FALSE(std::signbit(stats.min));
  EXPECT_EQ(stats.zero_count, 2U);
}

TEST(ComputeStats, FiniteDoublesWhoseSquaresOverflowAreNotCountedAsInfinite) {
  const std::vector<double> values = {1e200, -1e200};
  const TensorStats stats = ComputeStats(DType::kFloat64, BytesOf(values));
  EXPECT_EQ(stats.max, 1e200);
  EXPECT_EQ(stats.min, -1e200);
  EXPECT_EQ(stats.positive_inf_count, 0U);
  EXPECT_EQ(stats.mean, 0.0);
  EXPECT_EQ(stats.norm, std::numeric_limits<double>::infinity());
}

TEST(ComputeStats, TakesAbsoluteValuesOfComplexElements) {
  const std::vector<std::complex<float>> values = {{3.0F, -4.0F}, {0.0F, 1.0F}};
  const TensorStats stats = ComputeStats(DType::kComplex64, BytesOf(values));
  EXPECT_EQ(stats.max, 5.0);
  EXPECT_EQ(stats.min, 1.0);
  EXPECT_EQ(stats.mean, 3.0);
}

TEST(ComputeStats, CountsAnyNonZeroByteOfABoolAsOne) {
  const std::vector<uint8_t> values = {0, 1, 255, 0};
  const TensorStats stats = ComputeStats(DType::kBool, BytesOf(values));
  EXPECT_EQ(stats.max, 1.0);
  EXPECT_EQ(stats.min, 0.0);
  EXPECT_EQ(stats.mean, 0.5);
  EXPECT_EQ(stats.zero_count, 2U);
}

TEST(ComputeStats, SumsInDoubleSoThatFloat16CannotOverflow) {
  const std::vector<uint16_t> values(10, tensor::FloatToFloat16(60000.0F));
  const TensorStats stats = ComputeStats(DType::kFloat16, BytesOf(values));
  EXPECT_EQ(stats.mean, 60000.0);
  EXPECT_EQ(stats.norm, std::sqrt(10 * 60000.0 * 60000.0));
}

TEST(MergeStats, WithNothingChangesNothing) {
  const std::vector<float> values = {-2.0F, -1.0F};
  StatsPartial partial = StatsOfBlock(DType::kFloat32, BytesOf(values));
  MergeStats(partial, StatsPartial());
  EXPECT_EQ(partial.max, -1.0);
  EXPECT_EQ(partial.element_count, 2U);
  StatsPartial nothing;
  MergeStats(nothing, partial);
  EXPECT_EQ(nothing.max, -1.0);
  EXPECT_EQ(nothing.min, -2.0);
}

TEST(MergeStats, KeepsTheNansOfEitherHalf) {
  const std::vector<float> clean = {1.0F};
  const std::vector<float> poisoned = {kStatsNan, 5.0F};
  StatsPartial partial = StatsOfBlock(DType::kFloat32, BytesOf(clean));
  MergeStats(partial, StatsOfBlock(DType::kFloat32, BytesOf(poisoned)));
  EXPECT_EQ(partial.nan_count, 1U);
  EXPECT_TRUE(std::isnan(FinishStats(partial).max));
}

}  // namespace
}  // namespace msprobe::kernels
