#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/config_check/made_packs.h"

namespace msprobe::analysis::config_check {
namespace {

using test_support::Done;
using test_support::FindingThat;
using test_support::MadePacks;
using test_support::PackMembers;
using test_support::Rows;
using test_support::Sentences;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kInputs = "dataset/step0/rank0/dataset.json";
constexpr const char* kWeights = "weights/step0/rank0/model.json";

CheckResult Inputs(const std::string& bench, const std::string& cmp) {
  const MadePacks packs({{kInputs, bench}}, {{kInputs, cmp}});
  return Done(CheckDataset(packs.pair()));
}

CheckResult Weights(const PackMembers& bench, const PackMembers& cmp) {
  const MadePacks packs(bench, cmp);
  return Done(CheckWeights(packs.pair()));
}

constexpr const char* kOne = R"({"max": 2, "min": -2, "mean": 0, "norm": 4})";
constexpr const char* kOther = R"({"max": 3, "min": -3, "mean": 0, "norm": 4})";

std::string Named(const std::string& name, const std::string& value) {
  return "{\"" + name + "\": " + value + "}";
}

TEST(CheckDataset, EqualInputsPass) {
  const CheckResult result =
      Inputs(Named("args", Named("0", kOne)), Named("args", Named("0", kOne)));
  EXPECT_TRUE(result.passed);
  EXPECT_THAT(Rows(result.table), ElementsAre("0|0|args.0|TRUE|0|-0||0"));  // of a zero none
  EXPECT_THAT(result.findings, IsEmpty());
}

TEST(CheckDataset, DifferencesAreRelativeToBenchWithItsSign) {
  const CheckResult result = Inputs(Named("x", kOne), Named("x", kOther));
  EXPECT_FALSE(result.passed);
  EXPECT_THAT(Rows(result.table), ElementsAre("0|0|x|FALSE|0.5|-0.5||0"));
  const Finding finding = FindingThat(result, "1 of 1 recorded inputs differ, from step 0 on");
  EXPECT_THAT(finding.examples, ElementsAre("x (step 0 rank 0): relative difference up to 0.5"));
}

TEST(CheckDataset, InputsOfOneSideOrOfAnotherShapeDiffer) {
  const std::string bench = std::string(R"({"gone": )") + kOne + R"(, "tensor": )" + kOne +
                            R"(, "list": {"0": {"1": )" + kOne + R"(}}, "number": 5})";
  const std::string cmp = std::string(R"({"tensor": {"0": )") + kOne +
                          R"(}, "list": 3, "number": 6, "new": )" + kOne + "}";
  const CheckResult result = Inputs(bench, cmp);
  EXPECT_THAT(Rows(result.table), ElementsAre("0|0|gone|FALSE||||", "0|0|tensor|FALSE||||",
                                              "0|0|list|FALSE||||", "0|0|new|FALSE||||"));
  EXPECT_THAT(FindingThat(result, "inputs differ").examples,
              ElementsAre(HasSubstr("only in reference"), HasSubstr("a tensor in reference only"),
                          HasSubstr("a container in reference only"), HasSubstr("only in test")));
}

TEST(CheckDataset, InputsOfLongPathsAreRefused) {
  std::string tensors;
  for (int i = 0; i < 20'000; ++i) {
    tensors += fmt::format("{}\"{}\": {}", i == 0 ? "" : ",", i, kOne);
  }
  const std::string inputs = Named(std::string(2000, 'k'), "{" + tensors + "}");
  const MadePacks packs({{kInputs, inputs}}, {{kInputs, inputs}});
  const Result<CheckResult> result = CheckDataset(packs.pair());
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("the names of its nested values come to more"));
  EXPECT_EQ(Inputs("{" + tensors + "}", "{" + tensors + "}").table.row_count(), 20'000U);
}

TEST(CheckDataset, NanOnBothSidesIsNoDifferenceOfTheRuns) {
  const std::string nan = R"({"max": NaN, "min": NaN, "mean": NaN, "norm": NaN})";
  const CheckResult result = Inputs(Named("x", nan), Named("x", nan));
  EXPECT_FALSE(result.passed);
  EXPECT_THAT(Rows(result.table), ElementsAre("0|0|x|FALSE||||"));
  EXPECT_THAT(Sentences(result), ElementsAre(HasSubstr("1 input is NaN on both sides")));
}

TEST(CheckDataset, StepsOfOneSideAreNotRows) {
  const MadePacks packs({{kInputs, Named("x", kOne)}},
                        {{"dataset/step1/rank0/dataset.json", "{}"}});
  const CheckResult result = Done(CheckDataset(packs.pair()));
  EXPECT_TRUE(result.passed);
  EXPECT_THAT(Rows(result.table), IsEmpty());
}

TEST(CheckDataset, FilesInOtherFoldersAreToldAndLeftOut) {
  const MadePacks packs({{kInputs, "{}"}, {"dataset/first/rank0/dataset.json", "{}"}},
                        {{kInputs, "{}"}});
  const Finding finding = FindingThat(Done(CheckDataset(packs.pair())), "bench: 1 file left out");
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding.examples, ElementsAre("dataset/first/rank0/dataset.json"));
}

TEST(CheckWeights, AWeightWithoutPartnerIsAWarning) {
  const CheckResult result =
      Weights({{kWeights, Named("a", kOne)}}, {{kWeights, Named("b", kOne)}});
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.warnings, 2U);
  EXPECT_THAT(Rows(result.table),
              ElementsAre("0|0|a|only bench have||||", "0|0|b|only cmp have||||"));
  EXPECT_THAT(Sentences(result), ElementsAre(HasSubstr("2 weights have no partner")));
}

TEST(CheckWeights, AFileOfOneSideHasNoPartnersEither) {
  const CheckResult result = Weights({{kWeights, Named("a", kOne)}}, {});
  EXPECT_THAT(Rows(result.table), ElementsAre("0|0|a|only bench have||||"));
}

TEST(CheckWeights, WhatHasNotTheFourFeaturesDiffers) {
  for (const char* odd : {R"({"max": 2, "min": -2, "mean": 0})", "3", "null",
                          R"({"max": 2, "min": -2, "mean": 0, "norm": 4, "std": 1})"}) {
    EXPECT_FALSE(Weights({{kWeights, Named("a", odd)}}, {{kWeights, Named("a", odd)}}).passed)
        << odd;
  }
}

TEST(CheckWeights, ThatDifferLaterOnlyAreAConsequence) {
  const PackMembers bench = {{kWeights, Named("a", kOne)},
                             {"weights/step10/rank0/model.json", Named("a", kOne)},
                             {"weights/step9/rank0/model.json", Named("a", kOne)}};
  PackMembers cmp = bench;
  cmp["weights/step10/rank0/model.json"] = Named("a", kOther);
  const CheckResult later = Weights(bench, cmp);
  // Steps are ordered as numbers.
  EXPECT_THAT(Rows(later.table), ElementsAre(HasSubstr("0|0|a|TRUE"), HasSubstr("9|0|a|TRUE"),
                                             HasSubstr("10|0|a|FALSE")));
  const Finding finding = FindingThat(later, "from step 10 on (equal before, since step 0)");
  EXPECT_TRUE(finding.consequence);
  EXPECT_THAT(finding.why, HasSubstr("diverged during training"));
  cmp[kWeights] = Named("a", kOther);
  EXPECT_FALSE(FindingThat(Weights(bench, cmp), "from step 0 on").consequence);
}

TEST(CheckWeights, NameFewExamplesOfMany) {
  std::string bench = "{";
  std::string cmp = "{";
  for (int i = 0; i < 20; ++i) {
    const std::string key = (i == 0 ? "\"w" : ", \"w") + std::to_string(i) + "\": ";
    bench += key + kOne;
    cmp += key + kOther;
  }
  const CheckResult result = Weights({{kWeights, bench + "}"}}, {{kWeights, cmp + "}"}});
  EXPECT_EQ(result.errors, 20U);
  EXPECT_THAT(FindingThat(result, "20 of 20 recorded weights differ").examples,
              SizeIs(kMaxExamples));
}

}  // namespace
}  // namespace msprobe::analysis::config_check
