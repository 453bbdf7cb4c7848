#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "src/perturb/agreement.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::perturb {
namespace {

using test_support::ViewOf;

Distance Apart(const std::vector<float>& actual, const std::vector<float>& reference) {
  const auto count = static_cast<int64_t>(actual.size());
  const Result<Distance> distance =
      MeasureDistance(ViewOf(actual, {count}), ViewOf(reference, {count}));
  EXPECT_TRUE(distance.ok());
  return *distance;
}

TEST(Distance, IsTheNormOfTheDifferenceOverThatOfTheReference) {
  const Distance distance = Apart({3, 4.5F, 0}, {3, 4, 0});
  EXPECT_DOUBLE_EQ(distance.relative_error, 0.1);
  EXPECT_DOUBLE_EQ(distance.largest_error, 0.5);
  EXPECT_EQ(distance.different_count, 1U);
}

TEST(Distance, OfZerosIsZeroOrInfinite) {
  EXPECT_EQ(Apart({0, 0}, {0, 0}).relative_error, 0);
  EXPECT_TRUE(std::isinf(Apart({0, 1}, {0, 0}).relative_error));
  EXPECT_EQ(Apart({}, {}).relative_error, 0);
}

TEST(Distance, CountsWhatIsNotFiniteOnOneSideAlone) {
  const float nan = std::nanf("");
  const float inf = std::numeric_limits<float>::infinity();
  const Distance distance = Apart({nan, 1, nan, inf, inf}, {nan, 1, 1, inf, -inf});
  EXPECT_EQ(distance.nonfinite_count, 2U);
  EXPECT_EQ(distance.relative_error, 0);
}

TEST(Distance, DoesNotDependOnTheLayout) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const std::vector<float> plain = {0, 3, 1, 4, 2, 5};
  TensorView transposed = ViewOf(values, {3, 2});
  transposed.strides = {1, 3};
  EXPECT_EQ(MeasureDistance(transposed, ViewOf(plain, {3, 2}))->different_count, 0U);
}

TEST(Distance, OtherNumbersOfElementsHaveNone) {
  const std::vector<float> values = {1, 2};
  EXPECT_FALSE(MeasureDistance(ViewOf(values, {2}), ViewOf(values, {1})).ok());
}

}  // namespace
}  // namespace msprobe::perturb
