#include "src/perturb/noise_floor.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "src/perturb/perturbation.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::perturb {
namespace {

using test_support::ViewOf;

TEST(StudentQuantile, IsThatOfPrintedTables) {
  EXPECT_NEAR(StudentQuantile(0.95, 1), 12.7062, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.95, 2), 4.30265, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.95, 3), 3.18245, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.95, 4), 2.77645, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.95, 9), 2.26216, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.99, 20), 2.84534, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.95, 100000), 1.95998, 1e-4);
}

std::vector<float> Rounded(std::vector<float> values, uint64_t seed, uint64_t first = 0) {
  RoundStochastically(DType::kFloat32, std::as_writable_bytes(std::span(values)), seed, first);
  return values;
}

TEST(RoundStochastically, MovesAQuarterUpAndAQuarterDownByOneUnit) {
  const std::vector<float> values(40000, -1.5F);
  const std::vector<float> moved = Rounded(values, 3);
  std::array<size_t, 3> counts = {};
  for (const float value : moved) {
    const int32_t units = std::bit_cast<int32_t>(value) - std::bit_cast<int32_t>(values[0]);
    ASSERT_TRUE(units >= -1 && units <= 1);
    ++counts[static_cast<size_t>(units + 1)];
  }
  EXPECT_NEAR(static_cast<double>(counts[0]), 10000, 400);
  EXPECT_NEAR(static_cast<double>(counts[1]), 20000, 500);
  EXPECT_NEAR(static_cast<double>(counts[2]), 10000, 400);
  EXPECT_EQ(Rounded(values, 3), moved);
  EXPECT_NE(Rounded(values, 4), moved);
}

TEST(RoundStochastically, IsTheSameForAnyDivisionIntoBlocks) {
  const std::vector<float> whole = Rounded(std::vector<float>(100, 3), 9);
  std::vector<float> parts = Rounded(std::vector<float>(30, 3), 9);
  const std::vector<float> rest = Rounded(std::vector<float>(70, 3), 9, 30);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
}

TEST(RoundStochastically, LeavesWhatHasNoLastPlace) {
  const std::vector<float> values = {0,
                                     -0.0F,
                                     std::numeric_limits<float>::infinity(),
                                     std::numeric_limits<float>::max(),
                                     1e-40F,
                                     std::numeric_limits<float>::min()};
  for (uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(Rounded(values, seed), values);
  std::vector<int64_t> integers = {5};
  EXPECT_FALSE(
      RoundStochastically(DType::kInt64, std::as_writable_bytes(std::span(integers)), 1, 0));
  EXPECT_EQ(integers[0], 5);
}

NoiseFloor Floor(const std::vector<std::vector<float>>& results) {
  std::vector<TensorView> views;
  for (const std::vector<float>& result : results) {
    views.push_back(ViewOf(result, {static_cast<int64_t>(result.size())}));
  }
  const Result<NoiseFloor> floor = MeasureNoiseFloor(views, 1);
  EXPECT_TRUE(floor.ok());
  return *floor;
}

TEST(NoiseFloor, FollowsTheFormulaOverAllElements) {
  // Deviations from the mean (100, 0): (0.3, 0.4), none, (-0.3, -0.4); s = 0.5, |mean| = 100. The
  // rounding by lot is far below.
  const NoiseFloor floor = Floor({{100.3F, 0.4F}, {100, 0}, {99.7F, -0.4F}});
  EXPECT_NEAR(floor.relative, 4.30265 * 0.005, 1e-6);
  EXPECT_NEAR(floor.digits, std::log10(std::sqrt(3.0) / (4.30265 * 0.005)), 1e-4);
}

TEST(NoiseFloor, OfEqualResultsIsTheRoundingOfTheDtype) {
  const std::vector<float> result(10000, 1.5F);
  const NoiseFloor floor = Floor({result, result, result, result, result});
  // A unit of 1.5 is 2^-23; its rounding by lot has a variance of half a squared unit.
  EXPECT_NEAR(floor.relative, 2.77645 * std::sqrt(0.5) * 0x1p-23 / 1.5, 2e-9);
}

TEST(NoiseFloor, OfZerosIsNoneAndOfNoiseAroundZeroNoDigitsAreLeft) {
  const NoiseFloor zeros = Floor({{0, 0}, {0, 0}});
  EXPECT_EQ(zeros.relative, 0);
  EXPECT_NEAR(zeros.digits, 7.22, 0.01);
  const NoiseFloor noise = Floor({{1}, {-1}, {1}, {-1}});
  EXPECT_EQ(noise.digits, 0);
}

TEST(NoiseFloor, CountsWhatIsNotFiniteInSomeResultsAlone) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Floor({{1, infinity}, {1, 2}}).nonfinite_count, 1U);
  const NoiseFloor masked = Floor({{1, -infinity}, {1, -infinity}});
  EXPECT_EQ(masked.nonfinite_count, 0U);
  EXPECT_GT(masked.digits, 5);
}

TEST(NoiseFloor, IsTheSameForAnyLayout) {
  const std::vector<float> plain = {1, 2, 3, 4, 5, 6};
  const std::vector<float> turned = {1, 4, 2, 5, 3, 6};
  std::vector<TensorView> views = {ViewOf(plain, {2, 3}), ViewOf(plain, {2, 3})};
  const Result<NoiseFloor> expected = MeasureNoiseFloor(views, 4);
  for (TensorView& view : views) {
    view = ViewOf(turned, {2, 3});
    view.strides = {1, 2};
  }
  const Result<NoiseFloor> got = MeasureNoiseFloor(views, 4);
  ASSERT_TRUE(expected.ok() && got.ok());
  EXPECT_EQ(got->relative, expected->relative);
}

TEST(NoiseFloor, RefusesWhatDoesNotBelongTogether) {
  const std::vector<float> two = {1, 2};
  const std::vector<float> three = {1, 2, 3};
  const std::vector<TensorView> apart = {ViewOf(two, {2}), ViewOf(three, {3})};
  EXPECT_FALSE(MeasureNoiseFloor(apart, 1).ok());
  EXPECT_FALSE(MeasureNoiseFloor(std::span(apart).first(1), 1).ok());
}

}  // namespace
}  // namespace msprobe::perturb
