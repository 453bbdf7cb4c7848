#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/config_check/made_packs.h"

namespace msprobe::analysis::config_check {
namespace {

using test_support::Done;
using test_support::FindingThat;
using test_support::MadePacks;
using test_support::Rows;
using test_support::Sentences;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

CheckResult CheckedEnvironment(const std::string& bench, const std::string& cmp,
                               const CheckOptions& options = {}) {
  const MadePacks packs({{"env", bench}}, {{"env", cmp}});
  return Done(CheckEnv(packs.pair(), options));
}

// What makes a side an NPU.
constexpr const char* kNpu = R"({"ASCEND_HOME": "/usr/local/Ascend"})";

TEST(CheckEnv, PassesWhereNothingDiffers) {
  const CheckResult result = CheckedEnvironment(R"({"NCCL_ALGO": "Ring", "HOME": "/a"})",
                                                R"({"HOME": "/b", "NCCL_ALGO": "Ring"})");
  EXPECT_TRUE(result.passed);
  EXPECT_THAT(Rows(result.table), IsEmpty());
  EXPECT_THAT(result.findings, IsEmpty());
}

TEST(CheckEnv, AVariableThatIsNotSetHasItsDefault) {
  EXPECT_TRUE(CheckedEnvironment(R"({"CUDA_LAUNCH_BLOCKING": 0})", "{}").passed);
  const CheckResult result = CheckedEnvironment(R"({"CUDA_LAUNCH_BLOCKING": 1})", "{}");
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.errors, 1U);
  EXPECT_THAT(FindingThat(result, "CUDA_LAUNCH_BLOCKING differs").examples,
              ElementsAre("test not set (0), reference 1"));
}

// The Python tool's sheet has the sides exchanged.
TEST(CheckEnv, TheSheetHasCmpInFrontAndFindingsDoNot) {
  const CheckResult result =
      CheckedEnvironment(R"({"NCCL_ALGO": "Ring"})", R"({"NCCL_ALGO": "Tree"})");
  EXPECT_THAT(Rows(result.table), ElementsAre("NCCL_ALGO|NCCL_ALGO|Tree|Ring|error"));
  const Finding finding = FindingThat(result, "NCCL_ALGO differs");
  EXPECT_THAT(finding.examples, ElementsAre("test Tree, reference Ring"));
  EXPECT_THAT(finding.why, Not(IsEmpty()));
  EXPECT_THAT(finding.fix, Not(IsEmpty()));
}

TEST(CheckEnv, VariablesOfTwoKindsOfDevicesAreComparedByWhatTheyMean) {
  const CheckResult result = CheckedEnvironment(
      R"({"CUDA_VISIBLE_DEVICES": "0,1"})",
      R"({"ASCEND_RT_VISIBLE_DEVICES": "0,1,2", "HCCL_INTRA_ROCE_ENABLE": "1"})");
  EXPECT_THAT(Rows(result.table),
              Contains("ASCEND_RT_VISIBLE_DEVICES|CUDA_VISIBLE_DEVICES|0,1,2|0,1|error"));
  // What a GPU does not have is only a warning, and a note.
  EXPECT_THAT(Rows(result.table),
              Contains("HCCL_INTRA_ROCE_ENABLE|only bench has this env|1||warning"));
  EXPECT_EQ(result.errors, 1U);
  EXPECT_EQ(FindingThat(result, "the test ran on npu, the reference on gpu").severity,
            Severity::kNote);
}

TEST(CheckEnv, OtherSpellingsOfOneMeaningFailUnlessNormalized) {
  const std::string bench = R"({"NCCL_DETERMINISTIC": "true", "CUDA_LAUNCH_BLOCKING": "1.0"})";
  const std::string cmp = R"({"NCCL_DETERMINISTIC": "On", "CUDA_LAUNCH_BLOCKING": "1"})";
  const CheckResult strict = CheckedEnvironment(bench, cmp);
  EXPECT_EQ(strict.errors, 2U);
  EXPECT_THAT(Sentences(strict), ElementsAre(HasSubstr("different spelling")));
  EXPECT_EQ(strict.findings[0].severity, Severity::kWarning);
  CheckOptions options;
  options.normalize_env = true;
  const CheckResult normalized = CheckedEnvironment(bench, cmp, options);
  EXPECT_TRUE(normalized.passed);
  EXPECT_THAT(Rows(normalized.table), IsEmpty());
}

TEST(CheckEnv, WhatThePythonToolSetWhileCollectingCanBeLeftOut) {
  const std::string polluted =
      R"({"ASCEND_HOME": "/a", "PYTHONHASHSEED": "1234", "HCCL_DETERMINISTIC": "False"})";
  const CheckResult told = CheckedEnvironment(polluted, kNpu);
  EXPECT_FALSE(told.passed);  // the text "False" is not the default
  const Finding note = FindingThat(told, "bench: PYTHONHASHSEED=1234");
  EXPECT_EQ(note.severity, Severity::kNote);
  EXPECT_THAT(note.fix, HasSubstr("--ignore-collector-env"));
  CheckOptions options;
  options.ignore_collector_env = true;
  const CheckResult ignored = CheckedEnvironment(polluted, kNpu, options);
  EXPECT_TRUE(ignored.passed);
  EXPECT_THAT(Sentences(ignored), ElementsAre(HasSubstr("bench: PYTHONHASHSEED=1234")));
  // Somebody's own seed is not the collector's.
  EXPECT_THAT(Sentences(CheckedEnvironment(R"({"ASCEND_HOME": "/a", "PYTHONHASHSEED": "1234"})",
                                           kNpu, options)),
              ElementsAre(HasSubstr("further variables")));
}

TEST(CheckEnv, FurtherVariablesAreToldWithoutRows) {
  const CheckResult result = CheckedEnvironment(
      R"({"NVIDIA_TF32_OVERRIDE": "0", "WORLD_SIZE": "8"})", R"({"NVIDIA_TF32_OVERRIDE": "off"})");
  EXPECT_TRUE(result.passed);
  EXPECT_THAT(Rows(result.table), IsEmpty());
  const Finding finding = FindingThat(result, "further variables");
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding.examples, ElementsAre("WORLD_SIZE: not set / 8 (number of ranks)"));
  // Those of one kind of device say nothing about another.
  EXPECT_THAT(Sentences(CheckedEnvironment(R"({"NVIDIA_TF32_OVERRIDE": "1"})", kNpu)),
              Not(Contains(HasSubstr("further variables"))));
}

TEST(CheckEnv, NamesTheMemberThatIsNoObject) {
  const MadePacks packs({{"env", "{}"}}, {{"env", "[1]"}});
  const Result<CheckResult> result = CheckEnv(packs.pair(), {});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("env"));
  EXPECT_THAT(result.status().message(), HasSubstr("cmp.zip"));
}

}  // namespace
}  // namespace msprobe::analysis::config_check
