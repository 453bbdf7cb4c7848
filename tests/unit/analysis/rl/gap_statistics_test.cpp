#include "src/analysis/rl/gap_statistics.h"

#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::analysis::rl {
namespace {

TEST(GapStatistics, StepsAreWrittenAsRanges) {
  EXPECT_EQ(StepsText({}), "");
  EXPECT_EQ(StepsText({3, 4, 5}), "3-5");
  EXPECT_EQ(StepsText({0, 4, 5, 9}), "0, 4-5, 9");
}

TEST(GapStatistics, ATemperatureKeepsEveryDistributionWithinItsBounds) {
  const std::vector<std::vector<double>> all = {
      {2, 1, 0, -1}, {5, 0, 0, 0}, {0.1, 0, 0.2, 0.1}, {-3, 4, 4, -8}};
  for (const std::vector<double>& logits : all) {
    for (const double inverse : {0.6, 0.9, 1.1, 2.0}) {
      double sum = 0;
      double sharp_sum = 0;
      for (const double z : logits) {
        sum += std::exp(z);
        sharp_sum += std::exp(z * inverse);
      }
      for (const double z : logits) {
        const double b = z - std::log(sum);
        const double a = z * inverse - std::log(sharp_sum);
        const auto [low, high] = TemperatureBounds(b, inverse, 4);
        EXPECT_GE(a - b, low - 1e-6);
        EXPECT_LE(a - b, high + 1e-6);
      }
    }
  }
}

TEST(GapStatistics, LogarithmsAreGoodToAFewThousandths) {
  for (const float x : {1e-6F, 0.01F, 0.7F, 1.0F, 1.5F, 300.0F}) {
    EXPECT_NEAR(QuickLog(x), std::log(x), 5e-3);
  }
}

}  // namespace
}  // namespace msprobe::analysis::rl
