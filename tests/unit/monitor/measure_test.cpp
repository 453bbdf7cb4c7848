// The numbers of one tensor, right by default, and as the Python tool has them in compat mode.
#include "src/monitor/measure.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "src/tensor/float_bits.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::monitor {
namespace {

constexpr float kNanF = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfF = std::numeric_limits<float>::infinity();

template <typename Element>
TensorView ViewOf(const std::vector<Element>& values, DType dtype) {
  return test_support::ViewOf(values, {static_cast<int64_t>(values.size())}, dtype);
}

constexpr MeasureRules kRight{};
constexpr MeasureRules kCompat{.compat = true};

template <typename Element>
Value Of(Statistic op, const std::vector<Element>& values, DType dtype,
         const MeasureRules& rules = kRight) {
  return ColumnValue(op, Measure(ViewOf(values, dtype), rules), rules);
}

double FloatOf(Statistic op, const std::vector<float>& values, const MeasureRules& rules = kRight) {
  return std::get<double>(Of(op, values, DType::kFloat32, rules));
}

TEST(TensorStatistics, AreThoseOfTheTableOfTheFormat) {
  const std::vector<float> values = {1.5F, -2.0F, 0.0F, 3e-9F};
  EXPECT_EQ(FloatOf(Statistic::kNorm, values), 2.5);
  EXPECT_EQ(FloatOf(Statistic::kMin, values), -2.0);
  EXPECT_EQ(FloatOf(Statistic::kMax, values), 1.5);
  EXPECT_NEAR(FloatOf(Statistic::kMean, values), -0.12499999925, 1e-15);
  EXPECT_EQ(FloatOf(Statistic::kZeros, values), 0.5);
  EXPECT_EQ(Of(Statistic::kNans, values, DType::kFloat32), Value(int64_t{0}));
  EXPECT_EQ(Of(Statistic::kId, values, DType::kFloat32), Value());
}

TEST(TensorStatistics, OfInfinitiesAndNan) {
  const std::vector<float> infinite = {kInfF, 1.0F, -kInfF};
  EXPECT_EQ(FloatOf(Statistic::kNorm, infinite), kInfF);
  EXPECT_TRUE(std::isnan(FloatOf(Statistic::kMean, infinite)));
  EXPECT_EQ(FloatOf(Statistic::kMax, infinite), kInfF);
  EXPECT_EQ(Of(Statistic::kInfs, infinite, DType::kFloat32), Value(int64_t{2}));
  const std::vector<float> poisoned = {1.0F, kNanF, -2.0F};
  for (const Statistic op : {Statistic::kNorm, Statistic::kMin, Statistic::kMax, Statistic::kMean,
                             Statistic::kStd, Statistic::kRms, Statistic::kAmax}) {
    EXPECT_TRUE(std::isnan(FloatOf(op, poisoned))) << StatisticName(op);
  }
  EXPECT_EQ(Of(Statistic::kNans, poisoned, DType::kFloat32), Value(int64_t{1}));
  EXPECT_EQ(FloatOf(Statistic::kZeros, poisoned), 0.0);
}

TEST(TensorStatistics, OfNothing) {
  const std::vector<float> none;
  EXPECT_EQ(FloatOf(Statistic::kNorm, none), 0.0);
  for (const Statistic op : {Statistic::kMin, Statistic::kMax, Statistic::kMean, Statistic::kZeros,
                             Statistic::kStd, Statistic::kDynamicRange}) {
    EXPECT_TRUE(std::isnan(FloatOf(op, none))) << StatisticName(op);
  }
  EXPECT_EQ(Of(Statistic::kNans, none, DType::kFloat32), Value(int64_t{0}));
}

TEST(TensorStatistics, CountZerosOfHalvesInFloat32UnlessCompat) {
  const std::vector<uint16_t> values = {0, tensor::FloatToFloat16(1e-7F), 0xC200, 0x7BFF};
  EXPECT_EQ(Of(Statistic::kZeros, values, DType::kFloat16), Value(0.25));
  EXPECT_EQ(Of(Statistic::kZeros, values, DType::kFloat16, kCompat), Value(0.0));
}

TEST(TensorStatistics, TakeTheMostNegativeIntegerForZeroOnlyInCompat) {
  const std::vector<int8_t> values = {-128, 127};
  EXPECT_EQ(Of(Statistic::kZeros, values, DType::kInt8), Value(0.0));
  EXPECT_EQ(Of(Statistic::kZeros, values, DType::kInt8, kCompat), Value(0.5));
  EXPECT_EQ(Of(Statistic::kMin, values, DType::kInt8), Value(int64_t{-128}));
}

TEST(TensorStatistics, AreNumbersOfBoolsUnlessCompat) {
  const std::vector<uint8_t> values = {1, 0, 1};
  EXPECT_EQ(Of(Statistic::kMin, values, DType::kBool), Value(int64_t{0}));
  EXPECT_EQ(Of(Statistic::kMax, values, DType::kBool, kCompat), Value(true));
  EXPECT_EQ(std::get<double>(Of(Statistic::kZeros, values, DType::kBool)),
            static_cast<double>(1.0F / 3.0F));
  EXPECT_TRUE(std::isnan(std::get<double>(Of(Statistic::kZeros, values, DType::kBool, kCompat))));
  EXPECT_EQ(Of(Statistic::kNorm, values, DType::kBool), Value(std::sqrt(2.0)));
}

TEST(TensorStatistics, KeepEveryDigitOfLargeIntegers) {
  const std::vector<int64_t> values = {std::numeric_limits<int64_t>::max(), (int64_t{1} << 53U) + 1,
                                       std::numeric_limits<int64_t>::min()};
  EXPECT_EQ(Of(Statistic::kMax, values, DType::kInt64), Value(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(Of(Statistic::kMin, values, DType::kInt64), Value(std::numeric_limits<int64_t>::min()));
}

TEST(TensorStatistics, BeyondThePythonTools) {
  const std::vector<float> values = {3.0F, -5.0F, 1e-40F, 0.0F};
  EXPECT_EQ(FloatOf(Statistic::kAmax, values), 5.0);
  EXPECT_NEAR(FloatOf(Statistic::kRms, values), std::sqrt(34.0 / 4), 1e-12);
  EXPECT_NEAR(FloatOf(Statistic::kStd, values), std::sqrt(34.0 / 4 - 0.25), 1e-12);
  EXPECT_EQ(Of(Statistic::kSubnormals, values, DType::kFloat32), Value(int64_t{1}));
  EXPECT_NEAR(FloatOf(Statistic::kDynamicRange, {8.0F, 0.0F, kInfF, 0.5F}), 4.0, 1e-12);
  EXPECT_TRUE(std::isnan(FloatOf(Statistic::kDynamicRange, {0.0F})));
}

TEST(TensorStatistics, OfAStridedViewAreThoseOfItsElements) {
  std::vector<float> storage(200'000);
  for (size_t i = 0; i < storage.size(); ++i) {
    storage[i] = static_cast<float>(i % 7) - 3;
  }
  TensorView view = ViewOf(storage, DType::kFloat32);
  view.shape = {100'000};
  view.strides = {2};
  std::vector<float> every_second;
  for (size_t i = 0; i < storage.size(); i += 2) {
    every_second.push_back(storage[i]);
  }
  const TensorNumbers strided = Measure(view, kRight);
  const TensorNumbers plain = Measure(ViewOf(every_second, DType::kFloat32), kRight);
  EXPECT_EQ(strided.sum, plain.sum);
  EXPECT_EQ(strided.square_sum, plain.square_sum);
  EXPECT_EQ(strided.zero_count, plain.zero_count);
  view.negated = true;
  EXPECT_EQ(Measure(view, kRight).max, -plain.min);
}

TEST(TensorStatistics, AddUpOverCalls) {
  TensorNumbers total;
  Accumulate(total, Measure(ViewOf(std::vector<float>{3.0F, 1.0F}, DType::kFloat32), kRight));
  Accumulate(total, Measure(ViewOf(std::vector<float>{4.0F}, DType::kFloat32), kRight));
  Accumulate(total, {});
  EXPECT_EQ(ColumnValue(Statistic::kNorm, total, kRight), Value(std::sqrt(26.0)));
  EXPECT_EQ(ColumnValue(Statistic::kMean, total, kRight), Value(8.0 / 3));
  EXPECT_EQ(ColumnValue(Statistic::kMin, total, kRight), Value(1.0));
  EXPECT_EQ(ColumnValue(Statistic::kCalls, total, kRight), Value(int64_t{3}));
}

TEST(TensorStatistics, SumsOfSmallTensorsAreThoseOfTheFrameworks) {
  // A large number that comes and goes must not take the small one with it.
  const std::vector<double> values = {1e15, -1e15, 1e-9};
  EXPECT_EQ(Of(Statistic::kMean, values, DType::kFloat64), Value(1e-9 / 3));
}

TEST(SignAgreement, CountsZerosAsHalf) {
  const std::vector<float> a = {1.0F, -1.0F, 0.0F, 2.0F};
  const std::vector<float> b = {5.0F, 1.0F, 3.0F, 1.0F};
  EXPECT_EQ(SignAgreement(ViewOf(a, DType::kFloat32), ViewOf(b, DType::kFloat32)),
            (1.0 / 4 + 1) / 2);
  EXPECT_EQ(
      SignAgreement(ViewOf(a, DType::kFloat32), ViewOf(std::vector<float>{1.0F}, DType::kFloat32)),
      0.0);
}

TEST(ReducedColumns, AreWholeWhereTheOpsAre) {
  EXPECT_EQ(ColumnOfReduced(Statistic::kNans, DType::kFloat32, 3.0, kRight), Value(int64_t{3}));
  EXPECT_EQ(ColumnOfReduced(Statistic::kMin, DType::kFloat32, 3.0, kRight), Value(3.0));
  EXPECT_EQ(ColumnOfReduced(Statistic::kMin, DType::kInt32, 3.0, kRight), Value(int64_t{3}));
  EXPECT_EQ(ColumnOfReduced(Statistic::kMax, DType::kBool, 1.0, kCompat), Value(true));
}

}  // namespace
}  // namespace msprobe::monitor
