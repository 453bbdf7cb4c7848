#include "src/analysis/perf/operator_compare.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/perf/sheet.h"
#include "tests/unit/analysis/perf/made_profile.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeProfile;
using test_support::Rows;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Both sides, matched.
struct Matched {
  Matched(MadeProfile& base_profile, MadeProfile& comparison_profile,
          const PairOptions& options = {})
      : base(*base_profile, options.base_step),
        comparison(*comparison_profile, options.comparison_step),
        pairs(MatchOperators(base, comparison, options, warnings)) {}

  OperatorSide base;
  OperatorSide comparison;
  std::vector<std::string> warnings;
  std::vector<AlignedPair> pairs;
};

TEST(RoundToDigits, RoundsTheExactBinaryValueAsPythonDoes) {
  EXPECT_EQ(RoundToDigits(2.675, 2), 2.67);
  EXPECT_EQ(RoundToDigits(0.125, 2), 0.12);  // a tie goes to the even digit
  EXPECT_EQ(RoundToDigits(0.375, 2), 0.38);
  EXPECT_EQ(RoundToDigits(-1.005, 2), -1.0);
  EXPECT_EQ(RoundToDigits(1e300, 2), 1e300);
  EXPECT_EQ(RoundToDigits(-std::numeric_limits<double>::infinity(), 2),
            -std::numeric_limits<double>::infinity());
}

TEST(Differ, TellsRatiosOfZeroes) {
  EXPECT_EQ(Differ(0, 0).ratio, 1.0);
  EXPECT_EQ(Differ(0, 3).ratio, std::numeric_limits<double>::infinity());
  EXPECT_EQ(Differ(3, 0).ratio, 0.0);
  EXPECT_EQ(Differ(3, 1).ratio, 0.3333);
  EXPECT_EQ(Differ(3, 1).difference, -2.0);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Differ(infinity, infinity).ratio, 1.0);
  EXPECT_EQ(Differ(infinity, infinity).difference, 0.0);
}

TEST(DetailText, StopsWhereACellIsFull) {
  DetailText text;
  text.Add([](std::string& out) { out += std::string(DetailText::kMaxCharacters - 1, 'a'); });
  EXPECT_FALSE(text.full());
  text.Add([](std::string& out) { out += "\u00e9\u00e9"; });
  EXPECT_TRUE(text.full());
  EXPECT_EQ(text.text().substr(DetailText::kMaxCharacters - 1), "\u00e9");
  text.Add([](std::string&) { FAIL() << "nothing more fits"; });
}

TEST(OperatorDetails, SpellKernelsOfAGpu) {
  MadeProfile base;
  base.Op("aten::mm", 0, 10);
  base.Launch(0, "sgemm", 12);
  base.Launch(0, "relu", 0.5);
  MadeProfile comparison;
  comparison.Op("aten::mm", 0, 10);
  comparison.Launch(0, "sgemm", 25);
  const Matched sides(base, comparison);
  const auto sheet = OperatorDetails(sides.base, sides.comparison, sides.pairs, {});
  EXPECT_THAT(Rows(sheet.table),
              ElementsAre("1|aten::mm|[[2, 3]]|['float']|"
                          "sgemm [duration: 12.0]\\nrelu [duration: 0.5]\\n|12.5|"
                          "aten::mm|[[2, 3]]|['float']|sgemm [duration: 25.0]\\n|25|12.5|2"));
}

TEST(OperatorDetails, SpellKernelsOfAnNpuWithTheirTasks) {
  MadeProfile npu(profile::Device::kNpu);
  npu.Op("aten::mm", 0, 10);
  profile::Kernel& kernel = npu.Launch(0, "MatMul", 40);
  kernel.task_id = npu.Text("1");
  kernel.task_type = npu.Text("AI_CORE");
  kernel.shapes = npu.Text("\"2,3;3,4\"");
  npu.Launch(0, "hcom_allGather", 1e-5);
  const OperatorSide side(*npu, std::nullopt);
  std::string text;
  AppendKernelText(*npu, npu->kernels[0], text);
  AppendKernelText(*npu, npu->kernels[1], text);
  EXPECT_EQ(text,
            "MatMul, 1, AI_CORE, [input shapes: \"2,3;3,4\"] [duration: 40.0]\n"
            "hcom_allGather, None, None [duration: 1e-05]\n");
}

TEST(OperatorDetails, LeaveAMissingSideBlankAndItsTimeZero) {
  MadeProfile base;
  MadeProfile comparison;
  comparison.Op("new", 0, 10);
  comparison.Launch(0, "k", 3);
  const Matched sides(base, comparison);
  const auto sheet = OperatorDetails(sides.base, sides.comparison, sides.pairs, {});
  EXPECT_THAT(Rows(sheet.table),
              ElementsAre("1|||||0|new|[[2, 3]]|['float']|k [duration: 3.0]\\n|3|3|inf"));
}

TEST(OperatorDetails, LookAsTheyShould) {
  PairOptions options;
  options.base = "was";
  options.comparison = "is";
  MadeProfile empty;
  const Matched sides(empty, empty);
  const auto sheet = OperatorDetails(sides.base, sides.comparison, sides.pairs, options);
  EXPECT_EQ(sheet.table.name(), "OperatorCompare");
  EXPECT_EQ(sheet.table.row_count(), 0U);
  ASSERT_EQ(sheet.titles.size(), 2U);
  EXPECT_EQ(sheet.titles[0].text, "Base Profiling: was");
  EXPECT_EQ(sheet.titles[1].text, "Comparison Profiling: is");
  EXPECT_EQ(sheet.titles[1].first_column, 6U);
  EXPECT_EQ(sheet.titles[1].last_column, 10U);
  ASSERT_EQ(sheet.columns.size(), 13U);
  EXPECT_TRUE(sheet.columns[1].bold);
  EXPECT_EQ(sheet.columns[5].header, report::Shade::kGreen);
  EXPECT_EQ(sheet.columns[6].header, report::Shade::kYellow);
  EXPECT_EQ(sheet.columns[11].header, report::Shade::kGreen);
  EXPECT_FALSE(sheet.columns[11].is_ratio);
  EXPECT_TRUE(sheet.columns[12].is_ratio);
}

TEST(OperatorStatistic, PutsTheLargestGrowthFirst) {
  MadeProfile base;
  MadeProfile comparison;
  base.Op("shrinks", 0, 5);
  base.Launch(0, "k", 3000);
  base.Op("grows", 10, 15);
  base.Launch(10, "k", 1000);
  comparison.Op("grows", 0, 5);
  comparison.Launch(0, "k", 2500);
  comparison.Op("grows", 10, 15);
  comparison.Op("is new", 20, 25);
  comparison.Launch(20, "k", 500);
  const Matched sides(base, comparison);
  EXPECT_THAT(Rows(OperatorStatistic(sides.base, sides.comparison, sides.pairs, {}).table),
              ElementsAre("1|grows|1|1|2.5|2|1.5|2.5", "2|is new|0|0|0.5|1|0.5|inf",
                          "3|shrinks|3|1|0|0|-3|0"));
}

TEST(OperatorStatistic, CountsNamesAndNotTheirReplacements) {
  MadeProfile base;
  MadeProfile comparison;
  base.Op("fused", 0, 5);
  comparison.Op("plain", 0, 5);
  PairOptions options;
  options.operator_names["fused"] = "plain";
  const Matched sides(base, comparison, options);
  EXPECT_EQ(sides.pairs.size(), 1U);
  EXPECT_EQ(OperatorStatistic(sides.base, sides.comparison, sides.pairs, options).table.row_count(),
            2U);
}

TEST(MemoryDetails, SpellAllocations) {
  MadeProfile base;
  base.Op("aten::relu", 0, 10);
  base.Allocate(2, 128);
  base->allocations[0].released = base.Text("22");
  base->allocations[0].duration_us = 20;
  base.Allocate(3, 524288);
  base->allocations[1].size_is_integer = true;
  MadeProfile comparison;
  comparison.Op("aten::relu", 0, 10);
  const Matched sides(base, comparison);
  EXPECT_THAT(Rows(MemoryDetails(sides.base, sides.comparison, sides.pairs, {}).table),
              ElementsAre("1|aten::relu|[[2, 3]]|['float']|"
                          "aten::relu, (2, 22), [duration: 20.0], [size: 128.0]\\n"
                          "aten::relu, (3, None), [duration: 0.0], [size: 524288]\\n|524416|"
                          "aten::relu|[[2, 3]]|['float']||0|-524416|0"));
}

TEST(MemoryStatistic, SumsMegabytesAndMilliseconds) {
  MadeProfile base;
  base.Op("a", 0, 10);
  MadeProfile comparison;
  comparison.Op("a", 0, 10);
  comparison.Allocate(2, 1536);
  comparison->allocations[0].duration_us = 500;
  const Matched sides(base, comparison);
  EXPECT_THAT(Rows(MemoryStatistic(sides.base, sides.comparison, sides.pairs, {}).table),
              ElementsAre("1|a|0|0|1|0.5|1.5|1|1.5|inf"));
}

TEST(ApiCompare, TellsOwnTimeFromThatOfCallees) {
  MadeProfile base;
  base.Op("outer", 0, 30000);
  base.Op("inner", 1000, 11000);
  base.Op("inner", 12000, 22000);
  MadeProfile comparison;
  comparison.Op("ProfilerStep#1", 0, 90000);
  comparison.Op("inner", 1000, 31000);
  comparison.Op("added", 2000, 3000);
  const Matched sides(base, comparison);
  std::vector<std::string> warnings;
  EXPECT_THAT(Rows(ApiCompare(sides.base, sides.comparison, {}, warnings).table),
              ElementsAre("1|outer|30|10|30|1|0|0|0|0|0|0|0|0",
                          "2|inner|20|20|10|2|30|29|30|1|1.5|1.45|3|0.5",
                          "3|added|0|0|0|0|1|1|1|1|inf|inf|inf|inf"));
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(ApiCompare, AveragesTheRoundedTotal) {
  MadeProfile made;
  made.Op("a", 0, 5);
  made.Op("a", 10, 14);
  const Matched sides(made, made);
  std::vector<std::string> warnings;
  // 9 us are 0.01 ms, half of which rounds to 0.01 (0.005 is a little more than that in binary).
  EXPECT_THAT(Rows(ApiCompare(sides.base, sides.comparison, {}, warnings).table),
              ElementsAre("1|a|0.01|0.01|0.01|2|0.01|0.01|0.01|2|1|1|1|1"));
}

TEST(ApiCompare, NeedsBothSidesAndWarnsOfAStepWithoutOperators) {
  MadeProfile made;
  made.Op("ProfilerStep#1", 0, 9);
  made.Op("a", 1, 5);
  MadeProfile empty;
  std::vector<std::string> warnings;
  const Matched sides(made, empty);
  EXPECT_EQ(ApiCompare(sides.base, sides.comparison, {}, warnings).table.row_count(), 0U);
  EXPECT_THAT(warnings, IsEmpty());
  PairOptions options;
  options.base_step = "1";
  options.comparison_step = "7";
  const Matched steps(made, made, options);
  EXPECT_EQ(ApiCompare(steps.base, steps.comparison, options, warnings).table.row_count(), 0U);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("no operators in step 7")));
}

TEST(Sheets, SurviveAbsurdDurations) {
  MadeProfile base;
  MadeProfile comparison;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double duration : {infinity, -5.0, 1e308, 1e308}) {
    base.Op("x", 0, 5).duration_us = duration;
    base.Launch(0, "k", 1).duration_us = duration;
    base.Allocate(0, duration);
    comparison.Op("x", 0, 5).duration_us = -duration;
    comparison.Launch(0, "k", 1).duration_us = duration;
    comparison.Allocate(0, -duration);
  }
  const Matched sides(base, comparison);
  std::vector<std::string> warnings;
  EXPECT_EQ(OperatorDetails(sides.base, sides.comparison, sides.pairs, {}).table.row_count(), 1U);
  EXPECT_EQ(OperatorStatistic(sides.base, sides.comparison, sides.pairs, {}).table.row_count(), 1U);
  EXPECT_EQ(MemoryDetails(sides.base, sides.comparison, sides.pairs, {}).table.row_count(), 1U);
  EXPECT_EQ(MemoryStatistic(sides.base, sides.comparison, sides.pairs, {}).table.row_count(), 1U);
  EXPECT_EQ(ApiCompare(sides.base, sides.comparison, {}, warnings).table.row_count(), 1U);
}

}  // namespace
}  // namespace msprobe::analysis::perf
