#include "src/analysis/config_check/rules.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/analysis/config_check/check.h"

namespace msprobe::analysis::config_check {
namespace {

TEST(BuiltInRules, AreComplete) {
  const Rules& rules = BuiltInRules();
  ASSERT_EQ(rules.variables.size(), 6U);
  for (const VariableRule& rule : rules.variables) {
    EXPECT_FALSE(rule.npu.name.empty());
    EXPECT_FALSE(rule.why.empty());
    EXPECT_FALSE(rule.fix.empty());
  }
  EXPECT_TRUE(rules.variables[2].gpu.name.empty());
  EXPECT_TRUE(rules.variables[0].npu.default_value->is_boolean());
  EXPECT_EQ(rules.packages.size(), 6U);
  EXPECT_EQ(rules.aliases.size(), 5U);
  for (const Part part :
       {Part::kDataset, Part::kWeights, Part::kHyperparameters, Part::kRandom, Part::kPip}) {
    EXPECT_FALSE(rules.RemedyOf(PartName(part)).why.empty()) << PartName(part);
  }
}

TEST(Rules, FindTheMostTellingTopicOfAHyperparameter) {
  const Rules& rules = BuiltInRules();
  EXPECT_EQ(rules.TopicOf("seed"), 0U);
  EXPECT_EQ(rules.TopicOf("Params_DType"), 1U);
  EXPECT_EQ(rules.TopicOf("nothing-known"), rules.topics.size());
}

TEST(NumberBehind, TakesDigitsOnly) {
  EXPECT_EQ(NumberBehind("step12", "step"), 12);
  for (const char* name :
       {"step", "stepX", "step-1", "rank0", "step1 ", "step99999999999999999999"}) {
    EXPECT_FALSE(NumberBehind(name, "step").has_value()) << name;
  }
}

TEST(IsPackMember, KnowsTheLayoutOfPacks) {
  for (const char* name : {"env", "pip", "versions", "random/rank0.json", "weights/"}) {
    EXPECT_TRUE(IsPackMember(name)) << name;
  }
  for (const char* name : {"", "env/x", "envs", "random", "other/rank0.json", "/env"}) {
    EXPECT_FALSE(IsPackMember(name)) << name;
  }
}

TEST(OnlyIn, NamesAFewAndCountsTheRest) {
  const std::vector<StepFile> many = {{0, 0, ""}, {0, 1, ""}, {1, 0, ""}, {1, 1, ""}, {2, 0, ""}};
  EXPECT_EQ(OnlyIn(many, {many[0]}), "step 0 rank 1, step 1 rank 0, step 1 rank 1 and 1 more");
  EXPECT_EQ(OnlyIn({many[0]}, many), "");
}

}  // namespace
}  // namespace msprobe::analysis::config_check
