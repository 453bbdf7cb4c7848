#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/perf/module_compare.h"
#include "src/analysis/perf/operator_compare.h"
#include "tests/unit/analysis/perf/made_profile.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeProfile;
using test_support::Rows;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A net of two layers, each an operator of one kernel; a kernel of the net itself; the second
// layer's backward pass on another thread.
MadeProfile ModuleNet(double factor) {
  MadeProfile made;
  made.Python("nn.Module: Net_0", 0, 100);
  made.Python("nn.Module: Linear_0", 10, 20);
  made.Python("nn.Module: Linear_1", 30, 40);
  made.Python("train.py(1): main", -5, 900);
  made.Python("model.py(7): forward", 29, 41);
  made.Op("aten::linear", 11, 15);
  made.Launch(11, "gemm", 100 * factor);
  made.Op("aten::linear", 31, 35);
  made.Op("aten::mm", 32, 34);
  made.Launch(32, "gemm", 200 * factor);
  made.Op("aten::add", 50, 55);
  made.Launch(50, "add", 7);
  made.Op("AddmmBackward0", 210, 220, "2");
  made.Launch(215, "gemm", 300 * factor);
  made.ForwardBackward(32, 210);
  made.Op("mul", 214, 216, "2");
  return made;
}

struct Sides {
  Sides(MadeProfile& base_profile, MadeProfile& comparison_profile, const PairOptions& options = {})
      : base_operators(*base_profile, std::nullopt),
        comparison_operators(*comparison_profile, std::nullopt),
        base(base_operators),
        comparison(comparison_operators),
        pairs(MatchModules(base, comparison, options)) {}

  OperatorSide base_operators;
  OperatorSide comparison_operators;
  ModuleSide base;
  ModuleSide comparison;
  std::vector<AlignedPair> pairs;
};

TEST(NestedIntervals, FindTheInnermostWithoutItsEnds) {
  const std::vector<NestedIntervals::Interval> intervals = {{0, 100}, {10, 50}, {10, 20}, {60, 70}};
  const NestedIntervals tree(intervals, {});
  EXPECT_EQ(tree.Find(15), 2U);
  EXPECT_EQ(tree.Find(20), 1U);
  EXPECT_EQ(tree.Find(55), 0U);
  EXPECT_EQ(tree.Find(60), 0U);
  EXPECT_EQ(tree.Find(65), 3U);
  EXPECT_EQ(tree.Find(0), kNoNode);
  EXPECT_EQ(tree.Find(100), kNoNode);
}

TEST(NestedIntervals, PlaceMarkersInTheInnermost) {
  const std::vector<NestedIntervals::Interval> intervals = {{0, 100}, {10, 50}};
  const std::vector<profile::Nanoseconds> markers = {-1, 0, 10, 50, 51, 100, 101};
  const NestedIntervals tree(intervals, markers);
  std::vector<std::pair<uint32_t, uint32_t>> placed;
  for (const auto& item : tree.placed()) {
    placed.emplace_back(item.marker, item.node);
  }
  using Pair = std::pair<uint32_t, uint32_t>;
  EXPECT_THAT(placed, ElementsAre(Pair(1, 0), Pair(2, 1), Pair(3, 1), Pair(4, 0), Pair(5, 0)));
  EXPECT_EQ(tree.placed(tree[0]).size(), 5U);
  EXPECT_EQ(tree.placed(tree[1]).size(), 2U);
}

TEST(NestedIntervals, LeaveOutWhatLiesTooDeep) {
  std::vector<NestedIntervals::Interval> intervals;
  for (int64_t i = 0; i < 10000; ++i) {
    intervals.push_back({i, std::numeric_limits<int64_t>::max() - i});
  }
  const NestedIntervals tree(intervals, {});
  EXPECT_EQ(tree.nodes().size(), NestedIntervals::kMaxDepth);
  EXPECT_TRUE(tree.cut());
}

TEST(ModuleNames, ComeFromPaths) {
  EXPECT_EQ(ModuleClass("/nn.Module: Net_0/nn.Module: Linear_12"), "nn.Module: Linear");
  EXPECT_EQ(ModuleClass("/nn.Module: Net"), "nn.Module: Net");
  EXPECT_EQ(ModuleClass("/Optimizer.step#SGD.step"), "Optimizer.step#SGD.step");
  EXPECT_EQ(ModuleName("/[ BACKWARD ]/nn.Module: Net_0/nn.Module: Linear_12"),
            "/[ BACKWARD ]/ Net_0/ Linear_12");
}

TEST(ModuleSide, SumsWhatModulesLaunchedThemselvesAndWithin) {
  MadeProfile made = ModuleNet(1);
  const OperatorSide operators(*made, std::nullopt);
  const ModuleSide side(operators);
  ASSERT_EQ(side.modules().size(), 4U);
  EXPECT_EQ(side.path(0), "/nn.Module: Net_0");
  EXPECT_EQ(side.path(2), "/nn.Module: Net_0/nn.Module: Linear_1");
  EXPECT_EQ(side.path(3), "/[ BACKWARD ]/nn.Module: Net_0/nn.Module: Linear_1");
  EXPECT_EQ(side[0].self_us, 7);
  EXPECT_EQ(side[0].total_us, 307);
  EXPECT_EQ(side[2].self_us, 200);
  EXPECT_EQ(side[3].self_us, 300);
  EXPECT_EQ(side[0].level, 2U);
  EXPECT_EQ(side[2].level, 3U);
  EXPECT_EQ(side[3].level, 2U);
  EXPECT_EQ(side.CallStack(0), "train.py(1): main");
  EXPECT_EQ(side.CallStack(2), "train.py(1): main;\nmodel.py(7): forward");
}

TEST(ModuleSide, FallsBackToTheModulesAroundForACallStack) {
  MadeProfile made;
  made.Python("nn.Module: Net_0", 0, 100);
  made.Python("nn.Module: Linear_0", 10, 20);
  const OperatorSide operators(*made, std::nullopt);
  EXPECT_EQ(ModuleSide(operators).CallStack(1), "nn.Module: Net_0;\nnn.Module: Linear_0");
}

TEST(ModuleSide, CountsOptimizersAsModules) {
  MadeProfile made;
  made.Python("nn.Module: Net_0", 0, 100);
  made.Op("Optimizer.step#SGD.step", 200, 300);
  made.Op("aten::add_", 210, 220);
  made.Launch(210, "add", 5);
  const OperatorSide operators(*made, std::nullopt);
  const ModuleSide side(operators);
  ASSERT_EQ(side.modules().size(), 2U);
  EXPECT_EQ(side.path(1), "/Optimizer.step#SGD.step");
  EXPECT_EQ(side[1].self_us, 5);
  ASSERT_EQ(side.operators(1).size(), 1U);
  EXPECT_EQ(side.name(side.operators(1)[0]), "aten::add_");
}

TEST(ModuleSide, KeepsWhatRunsOutsideOfModules) {
  MadeProfile made = ModuleNet(1);
  made.Op("collate", 500, 520);
  made.Op("copy", 505, 510);
  made.Launch(505, "memcpy", 11);
  const OperatorSide operators(*made, std::nullopt);
  const ModuleSide side(operators);
  ASSERT_EQ(side.outside().size(), 2U);  // the operator that is a backward module, and this
  EXPECT_EQ(side.name(side.outside()[1]), "collate");
  EXPECT_EQ(side.kernels(side.outside()[1]).size(), 1U);
}

TEST(ModuleDetails, ListModulesAndTheirOperators) {
  MadeProfile base = ModuleNet(1);
  MadeProfile comparison = ModuleNet(2);
  comparison->operators[1].call_stack = comparison.Text("model.py(8)");
  const Sides sides(base, comparison);
  std::vector<std::string> warnings;
  const auto sheet = ModuleDetails(sides.base, sides.comparison, sides.pairs, {}, warnings);
  EXPECT_THAT(
      Rows(sheet.table),
      ElementsAre(
          "1|nn.Module: Net|2|/ Net_0|TOTAL||7|307|TOTAL||7|607|300|0|1.9772|train.py(1): "
          "main|"
          "train.py(1): main",
          "2|nn.Module: Net|2|/ Net_0|aten::add|add [duration: 7.0]\\n|7||aten::add|"
          "add [duration: 7.0]\\n|7|||0|1||",
          "3|nn.Module: Linear|3|/ Net_0/ Linear_0|TOTAL||100|100|TOTAL||200|200|100|100|2|"
          "train.py(1): main|train.py(1): main",
          "4|nn.Module: Linear|3|/ Net_0/ Linear_0|aten::linear|gemm [duration: 100.0]\\n|100||"
          "aten::linear|gemm [duration: 200.0]\\n|200|||100|2|N/A|N/A",
          "5|nn.Module: Linear|3|/ Net_0/ Linear_1|TOTAL||200|200|TOTAL||400|400|200|200|2|"
          "train.py(1): main;\\nmodel.py(7): forward|train.py(1): main;\\nmodel.py(7): forward",
          "6|nn.Module: Linear|3|/ Net_0/ Linear_1|aten::linear|gemm [duration: 200.0]\\n|200||"
          "aten::linear|gemm [duration: 400.0]\\n|400|||200|2|N/A|model.py(8)",
          "7|nn.Module: Linear|2|/[ BACKWARD ]/ Net_0/ Linear_1|TOTAL||300|300|TOTAL||600|600|300|"
          "300|2|train.py(1): main|train.py(1): main",
          "8|nn.Module: Linear|2|/[ BACKWARD ]/ Net_0/ Linear_1|mul|gemm [duration: 300.0]\\n|300||"
          "mul|gemm [duration: 600.0]\\n|600|||300|2|N/A|N/A"));
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_EQ(sheet.row_indents.size(), 0U);
}

TEST(ModuleDetails, PutModulesThatOnlyTheComparisonHasWhereTheyRan) {
  MadeProfile base;
  base.Python("nn.Module: A_0", 0, 10);
  base.Python("nn.Module: C_0", 40, 50);
  MadeProfile comparison;
  comparison.Python("nn.Module: A_0", 0, 10);
  comparison.Python("nn.Module: B_0", 20, 30);
  comparison.Python("nn.Module: C_0", 40, 50);
  comparison.Python("nn.Module: D_0", 60, 70);
  const Sides sides(base, comparison);
  std::vector<std::string> warnings;
  const auto sheet = ModuleDetails(sides.base, sides.comparison, sides.pairs, {}, warnings);
  std::vector<std::string> names;
  for (size_t i = 0; i < sheet.table.row_count(); ++i) {
    names.emplace_back(sheet.table.row(i)[3].text());
  }
  EXPECT_THAT(names, ElementsAre("/ A_0", "/ B_0", "/ C_0", "/ D_0"));
  EXPECT_EQ(Rows(sheet.table)[1],
            "2|nn.Module: B|2|/ B_0|TOTAL||0|0|TOTAL||0|0|0|0|1||nn.Module: B_0");
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("with_stack")));
}

TEST(ModuleStatistic, SumsModulesOfOnePath) {
  MadeProfile base = ModuleNet(1);
  MadeProfile comparison = ModuleNet(2);
  base.Python("nn.Module: Net_0", 1000, 1100);
  base.Python("nn.Module: Linear_0", 1010, 1020);
  base.Op("aten::linear", 1011, 1015);
  base.Launch(1011, "gemm", 50);
  base.Launch(1011, "bias", 4);
  const Sides sides(base, comparison);
  const auto rows = Rows(ModuleStatistic(sides.base, sides.comparison, sides.pairs, {}).table);
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_EQ(rows[2],
            "3|nn.Module: Linear|2|/ Net_0/ Linear_0|[ TOTAL ]||0.154|2|0.154||0.2|1|0.2|0.05|0.05|"
            "1.2987|train.py(1): main|train.py(1): main");
  EXPECT_EQ(rows[3],
            "4|nn.Module: Linear|2|/ Net_0/ Linear_0|aten::linear|"
            "gemm, [number: 2], [duration_ms: 0.150]\\nbias, [number: 1], [duration_ms: 0.004]\\n|"
            "0.154|2||gemm, [number: 1], [duration_ms: 0.200]\\n|0.2|1|||0.05|1.2987||");
  EXPECT_THAT(rows[6], HasSubstr("|3|/[ BACKWARD ]/ Net_0/ Linear_1|[ TOTAL ]|"));
}

TEST(CanCompareModules, OnlyWhereBothSidesHaveThemAndTheyAreWanted) {
  MadeProfile with = ModuleNet(1);
  MadeProfile without;
  without.Python("train.py(1): main", 0, 10);
  const Sides both(with, with);
  EXPECT_TRUE(CanCompareModules(both.base, both.comparison, {}));
  PairOptions options;
  options.modules = false;
  EXPECT_FALSE(CanCompareModules(both.base, both.comparison, options));
  const Sides item(with, without);
  EXPECT_FALSE(CanCompareModules(item.base, item.comparison, {}));
}

TEST(ModuleSide, CutsPathsThatAreLongerThanThoseOfAnyNet) {
  constexpr int64_t kAround = 300;
  constexpr int64_t kInside = 2000;
  MadeProfile made;
  for (int64_t i = 0; i < kAround; ++i) {
    made.Python("nn.Module: " + std::string(100, 'x') + std::to_string(i), i, 100'000 - i);
  }
  for (int64_t i = 0; i < kInside; ++i) {
    made.Python("nn.Module: Linear_" + std::to_string(i), 1000 + 10 * i, 1005 + 10 * i);
  }
  const OperatorSide operators(*made, std::nullopt);
  const ModuleSide side(operators);
  ASSERT_EQ(side.modules().size(), static_cast<size_t>(kAround + kInside));
  size_t bytes = 0;
  for (profile::TextId path = 0; path < side.paths().size(); ++path) {
    bytes += side.paths()[path].size();
    EXPECT_LE(side.paths()[path].size(), ModuleSide::kLongestPath + 4);
  }
  // Instead of 70 MB.
  EXPECT_LE(bytes, size_t{500'000});
  EXPECT_TRUE(side.path(kAround - 1).ends_with("/..."));
  EXPECT_EQ(side.path(0), "/nn.Module: " + std::string(100, 'x') + "0");
  EXPECT_TRUE(side.cuts_paths());
  MadeProfile net = ModuleNet(1);
  const OperatorSide real(*net, std::nullopt);
  EXPECT_FALSE(ModuleSide(real).cuts_paths());
}

}  // namespace
}  // namespace msprobe::analysis::perf
