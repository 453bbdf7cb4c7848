#include "src/perturb/ratio.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "src/perturb/agreement.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::perturb {
namespace {

using test_support::ViewOf;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

RatioResult Ratios(const std::vector<float>& original, const std::vector<float>& perturbed,
                   bool compat = false) {
  const Shape shape = {static_cast<int64_t>(original.size())};
  RatioRules rules;
  rules.compat = compat;
  Result<RatioResult> result =
      CompareRatios(ViewOf(original, shape), ViewOf(perturbed, shape), rules);
  EXPECT_TRUE(result.ok());
  return *result;
}

TEST(Ratio, EveryElementOfALargeTensorCounts) {
  constexpr size_t kElements = size_t{16} << 20U;  // 64 MiB: four chunks of the Python tool
  const std::vector<float> original(kElements, 2.0F);
  for (const size_t at : {size_t{10}, kElements - 10}) {
    std::vector<float> perturbed = original;
    perturbed[at] = 2.2F;
    const RatioResult result = Ratios(original, perturbed);
    EXPECT_NEAR(result.ratio, 1.1, 1e-6);
    EXPECT_EQ(result.worst_index, at);
    EXPECT_EQ(result.exceeding_count, 1U);
    EXPECT_FALSE(result.consistent(1.0002));
    EXPECT_EQ(Ratios(original, perturbed, true).consistent(1.0002), at == 10);
  }
}

TEST(Ratio, HowManyElementsDifferIsToldOfInconsistentResults) {
  std::vector<float> perturbed(1000, 2.0F);
  perturbed[3] = 2.0001F;
  const std::vector<float> original(perturbed.size(), 2.0F);
  EXPECT_TRUE(Ratios(original, perturbed).consistent(1.0002));
  EXPECT_EQ(Ratios(original, perturbed).exceeding_count, 0U);
  EXPECT_EQ(Ratios(original, perturbed).mean_ratio, 1);
  perturbed[700] = 1;
  EXPECT_EQ(Ratios(original, perturbed).ratio, 2);
  EXPECT_EQ(Ratios(original, perturbed).exceeding_count, 1U);
  EXPECT_NEAR(Ratios(original, perturbed).mean_ratio, 1.001, 1e-6);
}

TEST(Ratio, BirthsOfNanAndInfinitiesAreCounted) {
  const RatioResult result = Ratios({1, kNan, 2, kNan}, {kNan, 1, 2, kNan});
  EXPECT_EQ(result.new_nonfinite_count, 1U);
  EXPECT_EQ(result.lost_nonfinite_count, 1U);
  EXPECT_EQ(result.ratio, 1);
  EXPECT_EQ(result.mean_ratio, 1);
}

TEST(Ratio, ANanHidesNoChangeOfSign) {
  EXPECT_TRUE(Ratios({1, 1}, {kNan, -1}).sign_changes);
  EXPECT_FALSE(Ratios({1, 1}, {kNan, -1}, true).sign_changes);
}

RatioResult Quotients(const std::vector<float>& original, const std::vector<float>& perturbed,
                      bool compat = false) {
  const Shape shape = {static_cast<int64_t>(original.size())};
  RatioRules rules;
  rules.quotients = true;
  rules.compat = compat;
  Result<RatioResult> result =
      CompareRatios(ViewOf(original, shape), ViewOf(perturbed, shape), rules);
  EXPECT_TRUE(result.ok());
  return *result;
}

TEST(Quotient, IsTheLargerOfBothWaysRound) {
  EXPECT_EQ(Quotients({1, 2, 3}, {1, 1, 3}).ratio, 2);
  const RatioResult result = Quotients({1, 1, 3}, {1, 4, 3});
  EXPECT_EQ(result.ratio, 4);
  EXPECT_EQ(result.worst_index, 1U);
  EXPECT_EQ(result.exceeding_count, 1U);
  EXPECT_EQ(result.mean_ratio, 2);
}

TEST(Quotient, SmallValuesCountOnlyOverLargeOnes) {
  EXPECT_EQ(Quotients({1e-5F, 1}, {2e-5F, 1}).ratio, 1);   // both below 1e-4
  EXPECT_EQ(Quotients({1e-5F, 1}, {-2e-5F, 1}).ratio, 1);  // nor do their signs count
  EXPECT_EQ(Quotients({5e-5F, 1}, {1, 1}).ratio, 1);       // 1 / 5e-5 is not taken
}

TEST(Quotient, ANegativeOneIsEight) {
  const RatioResult result = Quotients({1, 2}, {1, -2});
  EXPECT_TRUE(result.sign_changes);
  EXPECT_EQ(result.ratio, 8);
  EXPECT_FALSE(result.consistent(1e9));
}

TEST(Quotient, ANegativeOneIsAsFarApartAsItsSize) {
  const RatioResult result = Quotients({3, 4, 1}, {3, -1, 1});
  EXPECT_EQ(result.mean_ratio, 2);
  EXPECT_EQ(result.worst_index, 1U);
  EXPECT_EQ(result.exceeding_count, 1U);
}

TEST(Quotient, NanAndInfinitiesDoNotHideTheOthers) {
  const RatioResult result = Quotients({1, 1, 2}, {kNan, 1, 1});
  EXPECT_EQ(result.ratio, 2);
  EXPECT_EQ(result.new_nonfinite_count, 1U);
  EXPECT_EQ(Quotients({kNan, 1, 2}, {1, 1, 1}, true).ratio, 2);
  EXPECT_EQ(Quotients({INFINITY, 1, 2}, {1, 1, 1}).ratio, 2);
  EXPECT_EQ(Quotients({INFINITY, 1, 2}, {1, 1, 1}, true).ratio, 1);  // as in the Python tool
  EXPECT_EQ(Quotients({}, {}).ratio, 1);
}

TEST(Quotient, OfDoublesIsRoundedToFloat) {
  const std::vector<double> original = {1.00000001};
  const std::vector<double> perturbed = {1};
  RatioRules rules;
  rules.quotients = true;
  const auto result = CompareRatios(ViewOf(original, {1}), ViewOf(perturbed, {1}), rules);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->ratio, 1);
}

TEST(Ratio, OtherNumbersOfElementsAreRefused) {
  const std::vector<float> values = {1, 2};
  EXPECT_FALSE(CompareRatios(ViewOf(values, {2}), ViewOf(values, {1}), {}).ok());
}

CpuAgreement WithCpu(const std::vector<float>& actual, const std::vector<float>& golden,
                     bool compat) {
  const Shape shape = {static_cast<int64_t>(actual.size())};
  Result<CpuAgreement> result =
      CompareWithCpu(ViewOf(actual, shape), ViewOf(golden, shape), compat);
  EXPECT_TRUE(result.ok());
  return *result;
}

TEST(CpuAgreement, ABiasOfEitherSignCounts) {
  // Within the limit of single errors of float16, beyond that of the mean.
  const std::vector<uint16_t> half(4, 0x3C00 - 1);  // the number below 1
  const std::vector<float> golden(4, 1.0F);
  for (const bool compat : {false, true}) {
    const Result<CpuAgreement> result =
        CompareWithCpu(ViewOf(half, {4}, DType::kFloat16), ViewOf(golden, {4}), compat);
    ASSERT_TRUE(result.ok());
    EXPECT_LT(*result->error_balance, -1e-4);
    EXPECT_EQ(result->consistent, compat);
  }
}

TEST(CpuAgreement, ANanOfTheDeviceAloneCounts) {
  EXPECT_FALSE(WithCpu({kNan, 1}, {1, 1}, false).consistent);
  EXPECT_EQ(WithCpu({kNan, 1}, {1, 1}, false).new_nonfinite_count, 1U);
  EXPECT_TRUE(WithCpu({kNan, 1}, {1, 1}, true).consistent);
}

}  // namespace
}  // namespace msprobe::perturb
