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
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kStatic = "hyperparameters/hyperparameters_static.json";
constexpr const char* kDynamic = "hyperparameters/hyperparameters_dynamic.json";

CheckResult CheckedArguments(const std::string& bench, const std::string& cmp) {
  const MadePacks packs({{kStatic, bench}}, {{kStatic, cmp}});
  return Done(CheckHyperparameters(packs.pair()));
}

TEST(CheckHyperparameters, EqualValuesHaveNoRows) {
  const CheckResult result =
      CheckedArguments(R"({"lr": 1, "list": [1, {"a": null}], "on": true, "ratio": 0.5})",
                       R"({"ratio": 0.5, "lr": 1.0, "on": 1, "list": [1, {"a": null}]})");
  EXPECT_TRUE(result.passed);
  EXPECT_THAT(Rows(result.table), IsEmpty());
  EXPECT_THAT(result.findings, IsEmpty());
}

TEST(CheckHyperparameters, DifferingValuesFailAndAreSortedByName) {
  const CheckResult result = CheckedArguments(R"({"width": 2, "seed": 1, "text": "1"})",
                                              R"({"seed": 2, "width": 3, "text": 1})");
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.errors, 3U);
  EXPECT_THAT(Rows(result.table),
              ElementsAre("hyperparameters_static.json|seed|seed|1|2|pure name|error",
                          "hyperparameters_static.json|text|text|1|1|pure name|error",
                          "hyperparameters_static.json|width|width|2|3|pure name|error"));
  // What decides most comes first, with what it does.
  const Finding finding = FindingThat(result, "3 hyperparameters differ");
  EXPECT_THAT(finding.examples[0], HasSubstr("seed: 2 / 1 (other seeds give"));
}

TEST(CheckHyperparameters, AParameterOfOneSideIsAWarning) {
  const CheckResult result = CheckedArguments(R"({"alpha": 1})", R"({"zzz": 2})");
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.warnings, 2U);
  EXPECT_THAT(Rows(result.table),
              ElementsAre("hyperparameters_static.json|Only in comparison|zzz||2||warning",
                          "hyperparameters_static.json|alpha|Only in benchmark|1|||warning"));
  EXPECT_THAT(FindingThat(result, "2 hyperparameters have no partner").examples,
              ElementsAre("zzz (test)", "alpha (reference)"));
}

TEST(CheckHyperparameters, AliasesMeanOneParameter) {
  const CheckResult result = CheckedArguments(R"({"lr": 0.1, "wd": 0})", R"({"learning_rate": 0.2,
                                                                    "weight_decay": 0})");
  EXPECT_THAT(Rows(result.table),
              ElementsAre("hyperparameters_static.json|lr|learning_rate|0.1|0.2|mapping|error"));
  const Finding renamed = FindingThat(result, "1 pair of different names");
  EXPECT_EQ(renamed.severity, Severity::kNote);
  EXPECT_THAT(renamed.examples, ElementsAre("wd = weight_decay"));
}

TEST(CheckHyperparameters, TheSameNameIsABetterPartnerThanAnAlias) {
  EXPECT_THAT(CheckedArguments(R"({"lr": 1})", R"({"learning_rate": 2, "lr": 1})").errors, 0U);
}

TEST(CheckHyperparameters, SimilarNamesMeanOneParameter) {
  const CheckResult result =
      CheckedArguments(R"({"num_attention_heads": 8})", R"({"num_attention_head": 16, "seq": 1})");
  EXPECT_THAT(Rows(result.table),
              Contains(HasSubstr("|num_attention_heads|num_attention_head|8|16|similarity:0.97")));
}

TEST(CheckHyperparameters, APartnerIsTakenOnce) {
  // Both resemble the one name of the other side: the first one gets it.
  const CheckResult result =
      CheckedArguments(R"({"hidden_size_a": 1, "hidden_size_b": 2})", R"({"hidden_size_c": 1})");
  EXPECT_THAT(
      Rows(result.table),
      ElementsAre("hyperparameters_static.json|hidden_size_b|Only in benchmark|2|||warning"));
}

TEST(CheckHyperparameters, SecretsAreNotShown) {
  const CheckResult result = CheckedArguments(R"({"api_key": "sk-first", "password": "geheim"})",
                                              R"({"api_key": "sk-second", "password": "other"})");
  EXPECT_THAT(Rows(result.table), Each(Not(HasSubstr("sk-"))));
  EXPECT_THAT(Rows(result.table), Each(Not(HasSubstr("geheim"))));
}

TEST(CheckHyperparameters, BothFilesAreComparedWhereBothSidesHaveThem) {
  const MadePacks packs({{kStatic, R"({"a": 1})"}, {kDynamic, R"({"b": 1})"}},
                        {{kStatic, R"({"a": 2})"}, {kDynamic, R"({"b": 2})"}});
  EXPECT_THAT(Rows(Done(CheckHyperparameters(packs.pair())).table),
              ElementsAre("hyperparameters_static.json|a|a|1|2|pure name|error",
                          "hyperparameters_dynamic.json|b|b|1|2|pure name|error"));
  const MadePacks one_side({{kStatic, "{}"}, {kDynamic, R"({"b": 1})"}}, {{kStatic, "{}"}});
  EXPECT_THAT(Rows(Done(CheckHyperparameters(one_side.pair())).table), IsEmpty());
}

TEST(CheckHyperparameters, NamesTheMemberThatIsDamaged) {
  const MadePacks packs({{kStatic, "{}"}}, {{kStatic, "{\"a\": "}});
  const Result<CheckResult> result = CheckHyperparameters(packs.pair());
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr(kStatic));
}

TEST(CheckHyperparameters, IsCutShortWhereTooManyNamesAreNearlyAlike) {
  const auto object = [](unsigned seed) {
    std::string text = R"({"last": 1)";
    for (const std::string& name : test_support::Shuffled(10, seed)) {
      text += ", \"" + name + "\": 1";
    }
    return text + "}";
  };
  const MadePacks packs({{kStatic, object(1)}}, {{kStatic, object(2)}});
  const CheckResult whole = Done(CheckHyperparameters(packs.pair()));
  const CheckResult cut = Done(CheckHyperparameters(packs.pair(), 100'000));
  EXPECT_EQ(whole.warnings, 20U);
  EXPECT_EQ(cut.warnings, 20U);
  EXPECT_THAT(Sentences(whole), Not(Contains(HasSubstr("cut short"))));
  EXPECT_THAT(Sentences(cut), Contains(HasSubstr("the search for similar names was cut short")));
}

}  // namespace
}  // namespace msprobe::analysis::config_check
