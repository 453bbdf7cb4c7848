#include "src/base/bounded_expression.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe::base {
namespace {

using Outcome = BoundedExpression::Outcome;
using ::testing::HasSubstr;

Outcome Search(std::string_view expression, std::string_view text) {
  Result<BoundedExpression> parsed = BoundedExpression::Parse(expression);
  return parsed.ok() ? parsed->Search(text) : Outcome::kTakesTooLong;
}

TEST(BoundedExpression, IsFoundAnywhere) {
  EXPECT_EQ(Search(R"(train\.py.*line \d+)", "File a/train.py, line 12, in step"), Outcome::kFound);
  EXPECT_EQ(Search("^step", "a step"), Outcome::kNotFound);
  EXPECT_EQ(Search("(?P<name>a)(?=b)", "cab"), Outcome::kFound);
  EXPECT_EQ(Search("", ""), Outcome::kFound);
}

TEST(BoundedExpression, KnowsLettersOfAllLanguages) {
  EXPECT_EQ(Search(R"(^\w{2}$)", "训练"), Outcome::kFound);
  EXPECT_EQ(Search("^.$", "训"), Outcome::kFound);
  EXPECT_EQ(Search("a", "\xff\xfe a"), Outcome::kFound) << "behind what is no text";
}

TEST(BoundedExpression, IsGivenUpWhereItTakesTooLong) {
  const std::string text = std::string(3000, 'a') + "!";
  for (const char* expression :
       {"(a+)+$", "(x+x+)+y|(a*)*[bc]", "(a|aa)*[bc]", R"(((a*)\2)*[bc])"}) {
    EXPECT_EQ(Search(expression, text), Outcome::kTakesTooLong) << expression;
  }
}

TEST(BoundedExpression, RefusesWhatIsBrokenOrTooLong) {
  EXPECT_THAT(BoundedExpression::Parse("ab[").status().message(),
              HasSubstr("broken at character 4"));
  EXPECT_EQ(BoundedExpression::Parse("(").status().code(), StatusCode::kUsage);
  EXPECT_THAT(BoundedExpression::Parse(std::string(2001, 'a')).status().message(),
              HasSubstr("at most 2000"));
  EXPECT_TRUE(BoundedExpression::Parse(std::string(2000, 'a')).ok());
}

}  // namespace
}  // namespace msprobe::base
