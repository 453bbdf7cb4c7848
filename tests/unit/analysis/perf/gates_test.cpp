#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/perf/perf.h"

namespace msprobe::analysis::perf {
namespace {

using ::testing::HasSubstr;

Gate Parsed(std::string_view text) {
  Result<Gate> gate = ParseGate(text);
  EXPECT_TRUE(gate.ok()) << text << ": " << gate.status().message();
  return gate.ok() ? *std::move(gate) : Gate();
}

TEST(ParseGate, KnowsEveryMetricInAnyCase) {
  EXPECT_EQ(Parsed("e2e>5%").metric, GateMetric::kEndToEnd);
  EXPECT_EQ(Parsed("E2E>5%").metric, GateMetric::kEndToEnd);
  EXPECT_EQ(Parsed("computing>5%").metric, GateMetric::kComputing);
  EXPECT_EQ(Parsed("Communication>5%").metric, GateMetric::kCommunication);
  EXPECT_EQ(Parsed("free>5%").metric, GateMetric::kFree);
  EXPECT_EQ(Parsed("memory>5%").metric, GateMetric::kMemory);
}

TEST(ParseGate, TakesGrowthInPercentOrAsATimeOrAsMemory) {
  EXPECT_TRUE(Parsed("e2e>2.5%").is_percent);
  EXPECT_EQ(Parsed("e2e>2.5%").threshold, 2.5);
  EXPECT_FALSE(Parsed("e2e>2ms").is_percent);
  EXPECT_EQ(Parsed("e2e>2ms").threshold, 2);
  EXPECT_EQ(Parsed("free>1.5s").threshold, 1500);
  EXPECT_EQ(Parsed("memory>512MB").threshold, 0.5);
  EXPECT_EQ(Parsed("memory>1e1GB").threshold, 10);
  EXPECT_EQ(Parsed("e2e>0%").threshold, 0);
}

TEST(ParseGate, BlanksDoNotMatter) {
  const Gate gate = Parsed("  computing > 3 % ");
  EXPECT_EQ(gate.metric, GateMetric::kComputing);
  EXPECT_EQ(gate.threshold, 3);
  EXPECT_EQ(gate.text, "computing > 3 %");
}

TEST(ParseGate, AnOperatorsNameMayHoldAnything) {
  const Gate gate = Parsed("op:void kernel<2>(int)*>10%");
  EXPECT_EQ(gate.metric, GateMetric::kOperator);
  EXPECT_EQ(gate.pattern, "void kernel<2>(int)*");
  EXPECT_EQ(gate.threshold, 10);
}

TEST(ParseGate, SaysWhatIsWrong) {
  const auto wrong = [](std::string_view text, const char* why) {
    const Result<Gate> gate = ParseGate(text);
    ASSERT_FALSE(gate.ok()) << text;
    EXPECT_EQ(gate.status().code(), StatusCode::kUsage) << text;
    EXPECT_THAT(gate.status().message(), HasSubstr(why)) << text;
    EXPECT_THAT(gate.status().message(), HasSubstr(text)) << text;
    EXPECT_THAT(gate.status().hint(), HasSubstr("e2e>5%")) << text;
  };
  wrong("", "no '>'");
  wrong("e2e<5%", "no '>'");
  wrong("speed>5%", "no metric \"speed\"");
  wrong(">5%", "no metric \"\"");
  wrong("op:>5%", "needs a name");
  wrong("e2e>5", "no unit");
  wrong("e2e>", "no unit");
  wrong("e2e>1GB", "does not fit");
  wrong("memory>1ms", "does not fit");
  wrong("op:aten::mm>1MB", "does not fit");
  wrong("e2e>much%", "is not a number");
  wrong("e2e>%", "is not a number");
  wrong("e2e>-1%", "is not a number");
  wrong("e2e>nan%", "is not a number");
  wrong("e2e>infms", "is not a number");
}

// Both sides' times in seconds, memory in GB.
PairComparison SidesOf(double base_s, double comparison_s) {
  PairComparison comparison;
  const auto fill = [](double seconds, std::optional<TimeSplit>& split,
                       std::optional<OverallTimes>& times) {
    const double ms = seconds * 1e3;
    split = TimeSplit{false, ms, ms / 2, ms / 4, ms / 16, ms / 16};
    times.emplace().memory_gb = seconds * 10;
  };
  fill(base_s, comparison.base_split, comparison.base_times);
  fill(comparison_s, comparison.comparison_split, comparison.comparison_times);
  comparison.base_communicates = true;
  comparison.comparison_communicates = true;
  return comparison;
}

GateOutcome Judged(std::string_view gate, const PairComparison& comparison) {
  return Judge(Parsed(gate), comparison);
}

TEST(JudgeGate, LooksAtTheMetricItNames) {
  const PairComparison grown = SidesOf(0.8, 1.6);
  EXPECT_EQ(Judged("e2e>5%", grown).explanation,
            "e2e 800.000 -> 1600.000 ms: +100.0 %, allowed 5 %");
  EXPECT_EQ(Judged("computing>1ms", grown).explanation,
            "computing 400.000 -> 800.000 ms: +400.000 ms, allowed 1 ms");
  EXPECT_EQ(Judged("communication>1ms", grown).explanation,
            "communication 200.000 -> 400.000 ms: +200.000 ms, allowed 1 ms");
  EXPECT_EQ(Judged("free>1s", grown).explanation,
            "free 100.000 -> 200.000 ms: +100.000 ms, allowed 1000 ms");
  EXPECT_EQ(Judged("memory>1GB", grown).explanation,
            "memory 8.000 -> 16.000 GB: +8.000 GB, allowed 1 GB");
}

TEST(JudgeGate, FailsOnlyAboveWhatIsAllowed) {
  EXPECT_FALSE(Judged("e2e>100%", SidesOf(1, 2)).failed);
  EXPECT_TRUE(Judged("e2e>99.9%", SidesOf(1, 2)).failed);
  EXPECT_FALSE(Judged("e2e>1000ms", SidesOf(1, 2)).failed);
  EXPECT_TRUE(Judged("e2e>999ms", SidesOf(1, 2)).failed);
  EXPECT_FALSE(Judged("e2e>0%", SidesOf(1, 1)).failed);
  EXPECT_FALSE(Judged("e2e>0%", SidesOf(2, 1)).failed);
}

TEST(JudgeGate, FailsWhereASideDoesNotTellTheValue) {
  EXPECT_TRUE(Judged("e2e>5%", PairComparison()).failed);
  EXPECT_THAT(Judged("e2e>5%", PairComparison()).explanation,
              HasSubstr("neither side records times"));
  EXPECT_THAT(Judged("e2e>5%", SidesOf(0, 1)).explanation,
              HasSubstr("the reference does not record times"));
  EXPECT_TRUE(Judged("computing>5%", SidesOf(1, 0)).failed);
  PairComparison without_memory = SidesOf(1, 1);
  without_memory.comparison_times->memory_gb = 0;
  EXPECT_TRUE(Judged("memory>5%", without_memory).failed);
  EXPECT_FALSE(Judged("e2e>5%", without_memory).failed);
}

TEST(JudgeGate, FailsWhereASideHasNoSuchThing) {
  PairComparison silent = SidesOf(1, 1);
  silent.comparison_communicates = false;
  EXPECT_TRUE(Judged("communication>500%", silent).failed);
  EXPECT_THAT(Judged("communication>500%", silent).explanation,
              HasSubstr("the test does not hold a collective"));
  silent.base_communicates = false;
  EXPECT_TRUE(Judged("communication>500%", silent).failed);
  PairComparison host = SidesOf(1, 1);
  host.base_split->of_host = host.comparison_split->of_host = true;
  EXPECT_FALSE(Judged("e2e>5%", host).failed);
  EXPECT_THAT(Judged("computing>5%", host).explanation, HasSubstr("no device was profiled"));
  PairComparison one_sided;
  one_sided.watched = {{"*flash*", 10, 0, 4, 0}};
  EXPECT_TRUE(Judged("op:*flash*>10%", one_sided).failed);
  EXPECT_THAT(Judged("op:*flash*>10%", one_sided).explanation,
              HasSubstr("the test does not hold an operator of such a name"));
}

TEST(JudgeGate, PercentOfNothingFailsOnAnyGrowth) {
  PairComparison comparison = SidesOf(1, 1);
  comparison.base_split->communication = 0;
  const GateOutcome grown = Judged("communication>500%", comparison);
  EXPECT_TRUE(grown.failed);
  EXPECT_THAT(grown.explanation, HasSubstr("grew from nothing"));
  comparison.comparison_split->communication = 0;
  EXPECT_FALSE(Judged("communication>0%", comparison).failed);
}

TEST(JudgeGate, TakesOperatorsFromThoseThatWereWatched) {
  PairComparison comparison;
  comparison.watched = {{"*matmul*", 10, 12, 4, 4}, {"gone*", 0, 0, 0, 0}};
  EXPECT_TRUE(Judged("op:*matmul*>10%", comparison).failed);
  EXPECT_FALSE(Judged("op:*matmul*>2ms", comparison).failed);
  for (const char* unknown : {"op:gone*>10%", "op:never asked for>10%"}) {
    const GateOutcome outcome = Judged(unknown, comparison);
    EXPECT_TRUE(outcome.failed);
    EXPECT_THAT(outcome.explanation,
                ::testing::AnyOf(HasSubstr("neither side holds an operator of such a name"),
                                 HasSubstr("operators were not compared")));
  }
}

TEST(JudgeGate, KeepsTheGateAsTyped) {
  EXPECT_EQ(Judged(" e2e > 5% ", SidesOf(1, 1)).gate, "e2e > 5%");
}

}  // namespace
}  // namespace msprobe::analysis::perf
