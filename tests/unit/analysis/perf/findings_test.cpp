#include "src/analysis/perf/findings.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/perf/work_groups.h"
#include "tests/unit/analysis/perf/made_profile.h"
#include "tests/unit/analysis/perf/made_summary.h"

namespace msprobe::analysis::perf {
namespace {

using test_support::MadeFinding;
using test_support::MadeProfile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct PreparedSide {
  explicit PreparedSide(MadeProfile& made)
      : tree(*made), work(*made, tree, std::nullopt), operators(*made, std::nullopt) {
    view = {&*made, &tree, &work, &operators, std::nullopt};
  }
  HostTree tree;
  DeviceWork work;
  OperatorSide operators;
  SideView view;
};

std::vector<Finding> Differences(MadeProfile& base, MadeProfile& comparison, size_t most = 20) {
  const PreparedSide left(base);
  const PreparedSide right(comparison);
  return FindDifferences(left.view, right.view, {}, most);
}

TEST(FindDifferences, RanksEachMetricByItsSizeAndLeavesNoiseOut) {
  MadeProfile base;
  MadeProfile comparison;
  base.Op("slower", 0, 100);
  base.Launch(0, "k", 1000);
  base.Op("faster", 200, 300);
  base.Launch(200, "k", 5000);
  base.Op("noisy", 400, 500);
  base.Launch(400, "k", 1000);
  comparison.Op("slower", 0, 100);
  comparison.Launch(0, "k", 2000);
  comparison.Op("faster", 200, 300);
  comparison.Launch(200, "k", 1000);
  comparison.Op("noisy", 400, 500);
  comparison.Launch(400, "k", 1000.5);
  comparison.Allocate(450, 2048);
  std::vector<std::string> texts;
  for (const Finding& finding : Differences(base, comparison)) {
    texts.push_back(finding.metric + " " + finding.where);
  }
  EXPECT_THAT(texts, ElementsAre("device time faster", "device time slower", "memory noisy"));
  EXPECT_EQ(Differences(base, comparison, 1).size(), 2U);
}

// One step: a marked range, an engine's frame and a module around the operator that got slower.
MadeProfile Net(double us) {
  MadeProfile made;
  made.Op("## backward ##", 0, 1000);
  made.Op("autograd::engine::evaluate_function: MmBackward0", 10, 60);
  made.Op("MmBackward0", 12, 50);
  made.Op("aten::mm", 20, 40);
  made.Launch(20, "Cijk_gemm", us);
  made.Op("aten::add", 100, 140);
  made.Launch(100, "elementwise_kernel", 50);
  return made;
}

TEST(FindDifferences, HostTimesOfManyThreadsMayBeLongerThan64Bits) {
  MadeProfile base;
  MadeProfile comparison;
  constexpr int64_t kLongUs = int64_t{1} << 52U;
  for (const char* thread : {"1", "2", "3"}) {
    base.Op("op", 0, 1, thread);
    comparison.Op("op", 0, kLongUs, thread);
  }
  base.Launch(0, "k", 1);  // calls are added up by name beside a device only
  comparison.Launch(0, "k", 1);
  for (const Finding& finding : Differences(base, comparison)) {
    EXPECT_GT(finding.comparison, static_cast<double>(kLongUs) / 1000) << finding.metric;
  }
}

TEST(FindDifferences, DescendsBelowMarkedRangesToTheOperatorAndItsKernels) {
  MadeProfile base = Net(100);
  MadeProfile comparison = Net(250);
  const std::vector<Finding> findings = Differences(base, comparison);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].where, "aten::mm in MmBackward0 under ## backward ##");
  EXPECT_THAT(findings[0].note, HasSubstr("matmul kernel Cijk_gemm (0.100 -> 0.250 ms)"));
  EXPECT_DOUBLE_EQ(findings[0].base, 0.1);
  EXPECT_DOUBLE_EQ(findings[0].comparison, 0.25);
  EXPECT_EQ(findings[0].comparison_calls, 1);
}

TEST(FindDifferences, NamesTheModuleOfABackwardOperator) {
  const auto with_modules = [](double us) {
    MadeProfile made;
    made.Python("nn.Module: Linear_3", 0, 100);
    made->python_calls.back().process = made.Text("100");
    made->python_calls.back().thread = made.Text("1");
    made.Op("aten::linear", 10, 50);
    made.Launch(10, "gemm", 10);
    made.Op("MmBackward0", 200, 240, "2");
    made.Launch(200, "gemm", us);
    made.ForwardBackward(10, 200);
    made->forward_backward.back().start_thread = made.Text("1");
    return made;
  };
  MadeProfile base = with_modules(100);
  MadeProfile comparison = with_modules(200);
  EXPECT_EQ(Differences(base, comparison)[0].where,
            "MmBackward0 under nn.Module: Linear (backward)");
}

WorkGroup Group(const std::string& label, double base_ms, double comparison_ms,
                std::vector<std::string> callers = {}, std::string_view family = "other") {
  WorkGroup group;
  group.label = label;
  group.is_operator = true;
  group.family = family;
  group.total = {Amount{base_ms, base_ms > 0 ? 4 : 0},
                 Amount{comparison_ms, comparison_ms > 0 ? 4 : 0}};
  group.callers = std::move(callers);
  return group;
}

TEST(FindingsOfGroups, NetsWhatWasReplaced) {
  const auto findings = FindingsOfGroups(
      {Group(
           "aten::_efficient_attention_forward", 10, 0,
           {"aten::_scaled_dot_product_efficient_attention", "aten::scaled_dot_product_attention"},
           "attention"),
       Group("aten::_flash_attention_forward", 0, 7,
             {"aten::_scaled_dot_product_flash_attention", "aten::scaled_dot_product_attention"},
             "attention"),
       Group("aten::mm", 20, 20, {}, "matmul")},
      kDeviceTime);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].where,
            "aten::_efficient_attention_forward -> aten::_flash_attention_forward in "
            "aten::scaled_dot_product_attention");
  EXPECT_DOUBLE_EQ(findings[0].base, 10);
  EXPECT_DOUBLE_EQ(findings[0].comparison, 7);
}

TEST(FindingsOfGroups, WhatOnlyCameIsNoReplacement) {
  const auto findings = FindingsOfGroups(
      {Group("aten::sort", 0, 9), Group("aten::mm", 20, 20, {}, "matmul")}, kDeviceTime);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].where, "aten::sort");
  EXPECT_THAT(findings[0].note, HasSubstr("only in the test"));
}

TEST(FindingsOfGroups, SaysWhenAllGotSlowerAlike) {
  std::vector<WorkGroup> groups;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    groups.push_back(Group(name, 10, 12));
  }
  EXPECT_EQ(FindingsOfGroups(groups, kDeviceTime)[0].where, "all operators alike");
  groups[0].total[1].ms = 40;
  EXPECT_NE(FindingsOfGroups(groups, kDeviceTime)[0].where, "all operators alike");
}

TEST(Judge, SaysAWordANumberAndTheCauseOfTheLargestShare) {
  const TimeSplit base = {false, 100, 60, 10, 10, 20};
  TimeSplit slower = {false, 120, 62, 26, 11, 21};
  std::vector<Finding> findings = {MadeFinding("aten::mm", 10, 12),
                                   MadeFinding("all_reduce", 10, 26, kCommunicationTime)};
  LeadWithLeadingShare(base, slower, findings);
  EXPECT_EQ(findings[0].where, "all_reduce");
  const Verdict verdict = Judge(base, slower, 2, 2, findings);
  EXPECT_EQ(verdict.word, "SLOWER");
  EXPECT_EQ(verdict.text,
            "SLOWER by 20.0 %, mostly uncovered communication: all_reduce +16.0 ms "
            "(E2E 100.0 -> 120.0 ms)");
  EXPECT_THAT(Judge(slower, base, 0, 0, findings).text, StartsWith("FASTER by 16.7 %"));
  EXPECT_THAT(Judge(base, base, 0, 0, findings).text, StartsWith("SAME: +0.0 %"));
  EXPECT_THAT(Judge(base, slower, 1, 2, findings).text,
              AllOf(StartsWith("FASTER by 40.0 %"), HasSubstr("per step; 1 against 2 steps")));
  EXPECT_EQ(Judge(TimeSplit(), slower, 0, 0, findings).text, "");
}

TEST(Judge, AComputingFigureIsNeverExplainedByCollectives) {
  const TimeSplit base = {false, 100, 60, 10, 0, 30};
  const TimeSplit slower = {false, 120, 79, 11, 0, 30};
  const std::vector<Finding> findings = {MadeFinding("all_reduce", 10, 60, kCommunicationTime)};
  EXPECT_EQ(Judge(base, slower, 0, 0, findings).text,
            "SLOWER by 20.0 %, mostly computing +19.0 ms (E2E 100.0 -> 120.0 ms)");
}

// A name is looked into once, however much lies below it.
TEST(FindDifferences, ALongNameAroundManyKernels) {
  constexpr int64_t kCalls = 50'000;
  const std::string around = std::string(size_t{4} << 20U, 'x') + "allreduce";
  MadeProfile base;
  MadeProfile comparison;
  for (MadeProfile* made : {&base, &comparison}) {
    made->Op(around, 0, 4 * kCalls);
    for (int64_t i = 0; i < kCalls; ++i) {
      made->Launch(1 + 4 * i, "nccl_unnamed", made == &base ? 1 : 2);
      made->Launch(2 + 4 * i, "Memcpy DtoD", made == &base ? 1 : 2);
    }
    made->Allocate(1, 1);
  }
  std::vector<std::string> texts;
  for (const Finding& finding : Differences(base, comparison)) {
    texts.push_back(finding.metric + " " + finding.where.substr(0, 20));
    if (finding.metric != "device time") {
      EXPECT_LT(finding.where.size(), 1200U) << finding.metric;
    }
  }
  EXPECT_THAT(texts, ::testing::Contains("communication all_reduce"));
  EXPECT_THAT(texts, ::testing::Contains(StartsWith("copies Memcpy DtoD in x")));
}

}  // namespace
}  // namespace msprobe::analysis::perf
