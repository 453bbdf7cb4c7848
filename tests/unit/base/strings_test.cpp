#include "src/base/strings.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/utf8.h"

namespace msprobe::base {
namespace {

using ::testing::ElementsAre;

TEST(AsciiLower, LeavesEverythingButLettersAlone) {
  EXPECT_EQ(AsciiLower("NcclKernel_[Z@`\xC3\x84]"), "ncclkernel_[z@`\xC3\x84]");
  EXPECT_TRUE(EqualsIgnoringCase("[Memory]", "[mEMORY]"));
  EXPECT_FALSE(EqualsIgnoringCase("memory", "memor"));
  EXPECT_FALSE(EqualsIgnoringCase("[", "{"));
}

TEST(Split, KeepsEmptyParts) {
  EXPECT_THAT(Split("a..b.", '.'), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(Split("", '.'), ElementsAre(""));
}

TEST(Join, UndoesSplit) {
  const std::vector<std::string> parts = {"a", "", "b"};
  EXPECT_EQ(Join(parts, ", "), "a, , b");
  EXPECT_EQ(Join({}, ", "), "");
}

TEST(Trim, TakesBlanksOffBothEndsOnly) {
  EXPECT_EQ(Trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(Trim(" \n"), "");
}

TEST(Replace, FirstAndAllTreatTextLiterally) {
  EXPECT_EQ(ReplaceFirst("a.b.c", ".", "/"), "a/b.c");
  EXPECT_EQ(ReplaceAll("a.b.c", ".", "/"), "a/b/c");
  EXPECT_EQ(ReplaceAll("aaa", "a", "aa"), "aaaaaa") << "what was put in is not searched again";
  EXPECT_EQ(ReplaceAll("abc", "", "x"), "abc");
  EXPECT_EQ(ReplaceFirst("abc", "", "x"), "abc");
}

TEST(GlobMatch, StarsAndQuestionMarks) {
  EXPECT_TRUE(GlobMatch("*", ""));
  EXPECT_TRUE(GlobMatch("Functional.*.forward", "Functional.conv2d.0.forward"));
  EXPECT_FALSE(GlobMatch("Functional.*.forward", "Functional.conv2d.0.backward"));
  EXPECT_TRUE(GlobMatch("a?c", "abc"));
  EXPECT_FALSE(GlobMatch("a?c", "ac"));
  EXPECT_TRUE(GlobMatch("*.b*.c", "a.b.b1.c"));
  EXPECT_FALSE(GlobMatch("", "a"));
  EXPECT_TRUE(GlobMatch("a[0]", "a[0]")) << "brackets are ordinary characters";
}

TEST(GlobMatch, ManyStarsStayFast) {
  // Exponential matchers never come back from this one.
  const std::string text(20000, 'a');
  std::string pattern;
  for (int i = 0; i < 30; ++i) {
    pattern += "a*";
  }
  EXPECT_FALSE(GlobMatch(pattern + "b", text));
}

TEST(NearestMatch, FindsTypingMistakesAndNothingElse) {
  const std::vector<std::string> flags = {"--output", "--threads", "--fuzzy_match"};
  EXPECT_EQ(NearestMatch("--ouput", flags), "--output");
  EXPECT_EQ(NearestMatch("--thread", flags), "--threads");
  EXPECT_EQ(NearestMatch("--fuzzy-match", flags), "--fuzzy_match");
  EXPECT_EQ(NearestMatch("--completely-other", flags), std::nullopt);
  EXPECT_EQ(NearestMatch("x", {}), std::nullopt);
}

TEST(NearestMatch, IsTheFirstOneOfTheLeastEdits) {
  const auto distance = [](std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i) {
      for (size_t j = 0; j <= b.size(); ++j) {
        edits[i][j] = i == 0   ? j
                      : j == 0 ? i
                               : std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1,
                                           edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      }
    }
    return edits[a.size()][b.size()];
  };
  std::vector<std::string> words = {""};
  for (size_t i = 0; words.size() < 120; ++i) {
    words.push_back(words[i] + 'a');
    words.push_back(words[i] + 'b');
    words.push_back(words[i] + "ba");
  }
  std::vector<std::string> few;
  for (size_t i = 7; i < words.size(); i += 11) {
    few.push_back(words[i] + words[i / 2]);
  }
  for (const std::string& word : words) {
    std::optional<std::string> nearest;
    size_t least = std::max<size_t>(2, word.size() / 3) + 1;
    for (const std::string& candidate : few) {
      if (distance(word, candidate) < least) {
        least = distance(word, candidate);
        nearest = candidate;
      }
    }
    EXPECT_EQ(NearestMatch(word, few), nearest) << word;
  }
}

TEST(NearestMatch, LooksNotAtWordsThatNobodyTypes) {
  const std::vector<std::string> names(20, std::string(100'000, 'b'));
  EXPECT_EQ(NearestMatch(std::string(100'000, 'a'), names), std::nullopt);
  // Too long for the word, whatever it is.
  EXPECT_EQ(NearestMatch("output", names), std::nullopt);
}

TEST(Printable, LeavesNothingThatSteersATerminal) {
  EXPECT_EQ(Printable("层 w1"), "层 w1");
  EXPECT_EQ(Printable("a\x1b[31mb\r\x7f\xc2\x9b"), "a?[31mb???");
  EXPECT_EQ(Printable("\xff\xed\xa0\x80|"), "??|");
  EXPECT_EQ(Printable("a\nb\tc", "\n"), "a\nb?c");
}

TEST(Format, SizesTimesAndCountsForPeople) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1500), "1.5 kB");
  EXPECT_EQ(FormatBytes(999'999), "1 MB");
  EXPECT_EQ(FormatBytes(2'500'000'000), "2.5 GB");
  EXPECT_EQ(FormatSeconds(0.421), "0.42 s");
  EXPECT_EQ(FormatSeconds(185), "3 min 05 s");
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1'048'576), "1,048,576");
  EXPECT_EQ(Plural(1, "row"), "1 row");
  EXPECT_EQ(Plural(2000, "row"), "2,000 rows");
}

TEST(TimestampNow, HasFourteenDigits) {
  const std::string stamp = TimestampNow();
  EXPECT_EQ(stamp.size(), 14U);
  EXPECT_EQ(stamp.find_first_not_of("0123456789"), std::string::npos) << stamp;
}

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(Shortened("abc", 3), "abc");
  EXPECT_EQ(Shortened("abcd", 3), "abc…");
  EXPECT_EQ(Shortened("a中b", 2), "a…");
  EXPECT_EQ(Shortened("中中", 0), "…");
  EXPECT_EQ(Shortened("abcd", 3, "..."), "abc...");
}

}  // namespace
}  // namespace msprobe::base
