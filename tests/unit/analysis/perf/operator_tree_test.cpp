#include "src/analysis/perf/operator_tree.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/perf/made_profile.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeProfile;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Names(const OperatorSide& side, std::span<const uint32_t> nodes) {
  std::vector<std::string> names;
  for (const uint32_t node : nodes) {
    names.emplace_back(side.name(node));
  }
  return names;
}

TEST(OperatorTree, TellsStepsAndOptimizersByTheirNames) {
  EXPECT_EQ(StepOf("ProfilerStep#12"), "12");
  EXPECT_EQ(StepOf("none"), "none");
  EXPECT_TRUE(IsOptimizer("Optimizer.step#SGD"));
  EXPECT_FALSE(IsOptimizer("Optimize"));
}

TEST(OperatorTree, NestsByTimeWhateverTheThread) {
  MadeProfile made;
  made.Op("next", 101, 110);
  made.Op("outer", 0, 100);
  made.Op("other thread", 50, 200, "2");
  made.Op("at the end of outer", 100, 100);
  const OperatorSide side(*made, std::nullopt);
  EXPECT_THAT(Names(side, side.tree().roots()), ElementsAre("outer"));
  EXPECT_THAT(Names(side, side.tree().children(0)), ElementsAre("other thread"));
  // A child outlives its parent, and what begins meanwhile is its own.
  EXPECT_THAT(Names(side, side.tree().children(1)), ElementsAre("at the end of outer", "next"));
}

TEST(OperatorTree, AnOperatorThatBeginsWhereAnotherEndsLiesInside) {
  MadeProfile made;
  made.Op("a", 0, 10);
  made.Op("b", 10, 20);
  made.Op("c", 21, 22);
  const OperatorSide side(*made, std::nullopt);
  EXPECT_THAT(Names(side, side.tree().roots()), ElementsAre("a", "c"));
}

TEST(OperatorTree, KeepsTheOrderOfTheFileWhereStartsAreEqual) {
  MadeProfile made;
  made.Op("x", 5, 9);
  made.Op("first", 0, 4);
  made.Op("second", 0, 4);
  const OperatorSide side(*made, std::nullopt);
  EXPECT_THAT(Names(side, side.all()), ElementsAre("first", "second", "x"));
  EXPECT_EQ(side.tree()[1].parent, 0U);
}

TEST(OperatorTree, CountsKernelsOfTheWholeSubtree) {
  MadeProfile made;
  made.Op("outer", 0, 100);
  made.Op("inner", 10, 20);
  made.Launch(10, "k", 1);
  made.Launch(10, "k", 1);
  made.Launch(0, "k", 1);
  made.Launch(50, "of nobody", 1);
  const OperatorSide side(*made, std::nullopt);
  EXPECT_EQ(side.tree()[0].kernel_count, 3U);
  EXPECT_EQ(side.tree()[1].kernel_count, 2U);
}

TEST(OperatorTree, VisitsKernelsLevelByLevel) {
  MadeProfile made;
  made.Op("outer", 0, 100);
  made.Op("left", 10, 40);
  made.Op("below left", 20, 30);
  made.Op("right", 50, 60);
  made.Launch(20, "3", 1);
  made.Launch(10, "1", 1);
  made.Launch(50, "2", 1);
  made.Launch(0, "0", 1);
  const OperatorSide side(*made, std::nullopt);
  std::vector<uint32_t> queue;
  std::string order;
  side.VisitKernels(0, queue,
                    [&](const profile::Kernel& kernel) { order += made->texts[kernel.name]; });
  EXPECT_EQ(order, "0123");
}

TEST(OperatorTree, HandsMemoryToTheInnermostOperatorAndItsName) {
  MadeProfile made;
  made.Op("outer", 0, 100);
  made.Op("inner", 10, 20);
  made.Allocate(15, 1);
  made.Allocate(10, 2);  // operators come first
  made.Allocate(21, 4);
  made.Allocate(22, 8, "cann::named");
  made.Allocate(101, 16);
  const OperatorSide side(*made, std::nullopt);
  std::vector<uint32_t> queue;
  std::vector<std::string> seen;
  side.VisitAllocations(0, queue, [&](const profile::Allocation& allocation, profile::TextId name) {
    seen.push_back(std::string(made->texts[name]) + " " +
                   std::to_string(static_cast<int>(allocation.size_kb)));
  });
  EXPECT_THAT(seen, ElementsAre("outer 4", "cann::named 8", "inner 2", "inner 1"));
}

TEST(OperatorSide, PutsTheContentsOfStepsInTheirPlace) {
  MadeProfile made;
  made.Op("before", 0, 5);
  made.Op("ProfilerStep#1", 10, 20);
  made.Op("a", 11, 14);
  made.Op("inside a", 12, 13);
  made.Op("ProfilerStep#2", 30, 40);
  made.Op("b", 31, 32);
  const OperatorSide whole(*made, std::nullopt);
  EXPECT_THAT(Names(whole, whole.top()), ElementsAre("before", "a", "b"));
  EXPECT_THAT(Names(whole, whole.all()), ElementsAre("before", "a", "inside a", "b"));
  const OperatorSide step(*made, "1");
  EXPECT_THAT(Names(step, step.top()), ElementsAre("a"));
  EXPECT_THAT(Names(step, step.all()), ElementsAre("a", "inside a"));
  EXPECT_THAT(Names(OperatorSide(*made, "3"), OperatorSide(*made, "3").all()), IsEmpty());
}

TEST(OperatorSide, TrustsADatabaseWithoutMarkersToHoldOnlyTheStep) {
  MadeProfile made;
  made.Op("a", 0, 5);
  EXPECT_THAT(OperatorSide(*made, "1").top(), IsEmpty());
  made->source = profile::Source::kDatabase;
  EXPECT_THAT(OperatorSide(*made, "1").top(), ElementsAre(0));
}

TEST(OperatorTree, SurvivesAbsurdTimes) {
  MadeProfile made;
  made.Op("ends before it starts", 10, 5);
  made.Op("usual", 6, 8);
  profile::Operator& endless = made.Op("endless", 0, 0);
  endless.start = std::numeric_limits<int64_t>::min();
  endless.end = std::numeric_limits<int64_t>::max();
  const OperatorSide side(*made, std::nullopt);
  EXPECT_THAT(Names(side, side.tree().roots()), ElementsAre("endless"));
  EXPECT_EQ(side.tree().children(0).size(), 2U);
}

}  // namespace
}  // namespace msprobe::analysis::perf
