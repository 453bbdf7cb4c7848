#include "src/report/texts.h"

#include <cstdlib>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace msprobe::report {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Chinese(std::string_view text) { return InLanguage(text, Language::kChinese); }

TEST(Texts, TheTableIsComplete) {
  ASSERT_GT(AllTexts().size(), 1000U);
  std::set<std::string> keys;
  for (const auto& [english, chinese] : AllTexts()) {
    EXPECT_THAT(chinese, Not(IsEmpty())) << english;
    keys.insert(english);
  }
  EXPECT_TRUE(keys.contains("Next"));
}

// Each key with words in its places is found again, with all of them in the translation. Another
// key may fit as well: then every word must still be there.
TEST(Texts, EveryKeyIsFoundWithItsValues) {
  for (const auto& [english, chinese] : AllTexts()) {
    std::string text = english;
    std::set<std::string> values;
    for (char digit = '0'; digit <= '9'; ++digit) {
      const std::string place = {'{', digit, '}'};
      const std::string value = std::string("w") + digit + "x";
      for (size_t at = text.find(place); at != std::string::npos; at = text.find(place)) {
        text.replace(at, place.size(), value);
        values.insert(value);
      }
    }
    for (size_t at = text.find("(s)"); at != std::string::npos; at = text.find("(s)")) {
      text.replace(at, 3, "s");
    }
    if (english.find_first_not_of(' ') != 0) {
      continue;
    }
    const std::string translated = Chinese(text);
    if (translated == text) {
      EXPECT_TRUE(chinese == english || !values.empty()) << english;
    }
    for (const std::string& value : values) {
      EXPECT_THAT(translated, HasSubstr(value)) << english;
    }
  }
}

// Each of its parts fits many keys, in several ways: without a bound it would take hours.
TEST(Texts, TheWorkForOneTextIsBounded) {
  std::string text;
  while (text.size() < 3000) {
    text += "step of rank, file x in y: line of z (w); ";
  }
  EXPECT_THAT(Chinese(text), HasSubstr("line of z"));
}

TEST(Texts, SentencesInSentences) {
  EXPECT_EQ(Chinese("IDENTICAL: all 12,840 compared rows are equal"),
            "完全一致：所比对的 12,840 行全部相等");
  EXPECT_EQ(Chinese("1 error"), "1 个错误");
  EXPECT_EQ(Chinese("2 errors, 3 warnings"), "2 个错误，3 个警告");
  EXPECT_EQ(Chinese("  computing"), "  计算");
}

TEST(Texts, NamesAndCodeStayAsTheyAre) {
  const std::string long_name(5000, 'x');
  for (const std::string_view text :
       {std::string_view("Functional.linear.3.forward"),
        std::string_view("for x in range(10): y = x of z"), std::string_view(""),
        std::string_view(" "), std::string_view("/a/b c/d.json"),
        std::string_view("Memcpy HtoD (Pageable -> Device)"), std::string_view(long_name)}) {
    EXPECT_EQ(Chinese(text), text);
  }
  EXPECT_EQ(Chinese("DIFFERENT: it starts with the computation of Torch.a b.0"),
            "不同：起点是Torch.a b.0 的计算");
}

TEST(Texts, WhatFollowsTheNameOfAFileIsTranslated) {
  EXPECT_EQ(Chinese("dump.json: line 3: the document is empty"), "dump.json：第 3 行：文档为空");
  EXPECT_EQ(Chinese("my dump/a.pt: zip member 3: the document is empty"),
            "my dump/a.pt：zip 成员 3：文档为空");
  EXPECT_EQ(Chinese("dump.json: what another program says"),
            "dump.json: what another program says");
}

TEST(Texts, AShortKeyIsNotTheFrameOfASentence) {
  EXPECT_EQ(Chinese("it goes on with some other files"), "it goes on with some other files");
  EXPECT_EQ(Chinese("3 files"), "3 个文件");
}

TEST(Texts, NothingThatIsTranslatedStandsAroundEnglish) {
  for (const std::string text :
       {"some other thing happened could not be read",
        "PARTLY: this sentence has no key of its own, but it could not be read",
        "allowed: what was never written down"}) {
    EXPECT_EQ(Chinese(text), text);
  }
  EXPECT_THAT(Chinese("cannot run no_such: what the system says"), HasSubstr("无法运行"));
}

TEST(Texts, APlaceEndsWithItsSentence) {
  EXPECT_EQ(Chinese("a.db: 168 rows of 14 names and 1 rank; 1 table could not be read"),
            "a.db：168 行（14 个名称，1 个 rank）；1 个表无法读取");
  EXPECT_EQ(
      Chinese(
          "--fail-on error, missing: WRONG: 1 of 25 calls beyond what rounding explains, f first"),
      "--fail-on error, missing：有错：25 次调用中有 1 次超出舍入所能解释的范围，首个为 f");
}

TEST(Texts, ParenthesesOfAValueStayTogether) {
  EXPECT_EQ(Chinese("DIFFERENT: it starts with the optimizer's update of a parameter of fc1 "
                    "(Linear) (step1)"),
            "不同：起点是优化器对 fc1 (Linear) 的参数更新（step1）");
}

TEST(Texts, ValuesOfAFlagStayAsTheyAreTyped) {
  EXPECT_EQ(Chinese("--format takes error, different or drift, not \"\""),
            "--format 应为 error, different 或 drift，而不是 \"\"");
  EXPECT_EQ(Chinese("-n takes a whole number of at least 0, not \"-1\""),
            "-n 应为不小于 0 的整数，而不是 \"-1\"");
}

TEST(Texts, EnglishIsNotTouched) {
  EXPECT_EQ(InLanguage("Next", Language::kEnglish), "Next");
  EXPECT_EQ(WordInLanguage("error", Language::kEnglish), "error");
}

TEST(Texts, WordsAreWholeKeys) {
  EXPECT_EQ(WordInLanguage("pass", Language::kChinese), "通过");
  EXPECT_EQ(WordInLanguage("3 rows", Language::kChinese), "3 rows");
}

TEST(Texts, PagesGetWhatTheirDataNeed) {
  const auto page = nlohmann::json::parse(
      WithTranslations(R"({"a":["Next",{"b":"3 rows"},"Next","torch.add"],"n":1})", {"error"}));
  EXPECT_EQ(page["zh"],
            (nlohmann::json{{"Next", "下一步"}, {"3 rows", "3 行"}, {"error", "误差"}}));
  EXPECT_EQ(page["n"], 1);
  EXPECT_EQ(WithTranslations("{}"), R"({"zh":{}})");
}

TEST(Texts, TheFirstVariableThatIsSetDecides) {
  const auto with = [](const char* all, const char* messages, const char* lang) {
    ::setenv("LC_ALL", all, 1);
    ::setenv("LC_MESSAGES", messages, 1);
    ::setenv("LANG", lang, 1);
    return LanguageOfLocale();
  };
  EXPECT_EQ(with("", "", "zh_CN.UTF-8"), Language::kChinese);
  EXPECT_EQ(with("", "en_US.UTF-8", "zh_CN.UTF-8"), Language::kEnglish);
  EXPECT_EQ(with("zh_CN.UTF-8", "en_US.UTF-8", "C"), Language::kChinese);
  EXPECT_EQ(with("", "", ""), Language::kEnglish);
}

}  // namespace
}  // namespace msprobe::report
