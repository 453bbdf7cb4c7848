#include "src/report/advice.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe::report {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// "{0}", "{1}" ... in a text.
std::set<char> Placeholders(const std::string& text) {
  std::set<char> found;
  for (size_t at = 0; at + 2 < text.size(); ++at) {
    if (text[at] == '{' && text[at + 2] == '}') {
      found.insert(text[at + 1]);
    }
  }
  return found;
}

TEST(AdviceTable, HasEveryRowInBothLanguagesWithTheSamePlaceholders) {
  ASSERT_THAT(AdviceIds(), Not(IsEmpty()));
  for (const std::string& id : AdviceIds()) {
    const std::string english = AdviceText(Advice(id), Language::kEnglish);
    const std::string chinese = AdviceText(Advice(id), Language::kChinese);
    EXPECT_THAT(english, Not(IsEmpty())) << id;
    EXPECT_THAT(chinese, Not(IsEmpty())) << id;
    EXPECT_EQ(Placeholders(english), Placeholders(chinese)) << id;
  }
}

TEST(AdviceTable, FillsPlaceholdersInTheOrderOfTheLanguage) {
  const Advice advice("compare.argument", {"dim", "softmax", "1", "2", "train.py:3"});
  EXPECT_THAT(AdviceText(advice),
              HasSubstr("argument dim of softmax is 1 on the test side and 2 on"));
  EXPECT_THAT(AdviceText(advice, Language::kChinese), HasSubstr("softmax 的参数 dim"));
}

TEST(AdviceTable, CountsOneAndMany) {
  EXPECT_THAT(AdviceText(Advice("ckpt_compare.check_mapping", {"1"})), HasSubstr("1 parameter "));
  EXPECT_THAT(AdviceText(Advice("ckpt_compare.check_mapping", {"3"})), HasSubstr("3 parameters "));
}

TEST(AdviceTable, LeavesValuesAsTheyAre) {
  EXPECT_EQ(AdviceText(Advice("text", {"{0} of {1}(s)"})), "{0} of {1}(s)");
}

}  // namespace
}  // namespace msprobe::report
