#include <gtest/gtest.h>

#include "src/analysis/grad/grad.h"

namespace msprobe::analysis::grad {
namespace {

RankComparison RankOf(std::vector<std::optional<Agreement>> steps) {
  RankComparison rank;
  for (size_t step = 0; step < steps.size(); ++step) {
    rank.steps.push_back(static_cast<int64_t>(step));
  }
  rank.parameters.push_back({"weight", std::move(steps)});
  return rank;
}

std::optional<size_t> MarkedStep(std::vector<std::optional<Agreement>> steps) {
  RankComparison rank = RankOf(std::move(steps));
  Judge(rank, {});
  EXPECT_EQ(rank.summary.marked, rank.parameters[0].marked);
  return rank.summary.marked;
}

TEST(GradResult, TheFirstStepStandsOutBelowTheLeastShare) {
  EXPECT_EQ(MarkedStep({Agreement{96, 100}, Agreement{96, 100}}), 0U);
  EXPECT_EQ(MarkedStep({Agreement{97, 100}, Agreement{97, 100}}), std::nullopt);
}

TEST(GradResult, ALaterStepStandsOutAfterADropAndNotForBeingLow) {
  EXPECT_EQ(MarkedStep({Agreement{100, 100}, Agreement{98, 100}, Agreement{96, 100}}),
            std::nullopt);
  EXPECT_EQ(MarkedStep({Agreement{100, 100}, Agreement{98, 100}, Agreement{94, 100}}), 2U);
}

TEST(GradResult, ADropIsMeasuredFromTheStepThatWasComparedBefore) {
  EXPECT_EQ(MarkedStep({Agreement{100, 100}, std::nullopt, Agreement{0, 0}, Agreement{90, 100}}),
            3U);
  EXPECT_EQ(MarkedStep({std::nullopt, Agreement{90, 100}}), 1U);
}

TEST(GradResult, TheSummaryWeighsElementsAndNotParameters) {
  RankComparison rank = RankOf({Agreement{0, 10}});
  rank.parameters.push_back({"bias", {Agreement{990, 990}}});
  rank.parameters.push_back({"unread", {std::nullopt}});
  Judge(rank, {});
  EXPECT_DOUBLE_EQ(rank.summary.steps[0]->similarity(), 0.99);
  EXPECT_EQ(rank.summary.marked, std::nullopt);
  EXPECT_EQ(rank.parameters[0].marked, 0U);
  EXPECT_EQ(rank.parameters[2].marked, std::nullopt);
}

}  // namespace
}  // namespace msprobe::analysis::grad
