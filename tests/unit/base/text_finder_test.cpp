#include "src/base/text_finder.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe::base {
namespace {

using ::testing::ElementsAre;

std::vector<uint32_t> Prefixes(const TextFinder& finder, std::string_view text) {
  std::vector<uint32_t> found;
  finder.ForEachDottedPrefix(text, [&](uint32_t index) {
    found.push_back(index);
    return false;
  });
  return found;
}

TEST(TextFinder, TellsWhereTextsStand) {
  const std::vector<std::string_view> patterns = {"he", "she", "", "hers"};
  const TextFinder finder(patterns);
  std::vector<std::pair<uint32_t, size_t>> hits;
  finder.ForEachHit("usher hers", [&](uint32_t index, size_t end) {
    hits.emplace_back(index, end);
    return hits.size() == 4;
  });
  EXPECT_THAT(hits, ElementsAre(std::pair(1U, 4U), std::pair(0U, 4U), std::pair(0U, 8U),
                                std::pair(3U, 10U)));
  hits.clear();
  finder.ForEachHit("she", [&](uint32_t index, size_t end) {
    hits.emplace_back(index, end);
    return true;
  });
  EXPECT_THAT(hits, ElementsAre(std::pair(1U, 3U)));
}

TEST(TextFinder, FindsTextsAnywhere) {
  const std::vector<std::string_view> patterns = {"she", "he", "", "hers", "his", "he"};
  const TextFinder finder(patterns);
  EXPECT_EQ(finder.First("ushers"), 0U);
  EXPECT_EQ(finder.First("there"), 1U);
  EXPECT_EQ(finder.First("nothing"), std::nullopt);
  EXPECT_THAT(finder.All("ushers"), ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(finder.All("hishis"), ElementsAre(4));
  EXPECT_THAT(finder.All(""), ElementsAre());
  EXPECT_EQ(TextFinder().First("a"), std::nullopt);
}

TEST(TextFinder, FindsBeginningsThatEndAtADot) {
  const std::vector<std::string_view> patterns = {"a.b", "a", "a.", "a.b.c", "b"};
  const TextFinder finder(patterns);
  EXPECT_THAT(Prefixes(finder, "a.b.c"), ElementsAre(1, 0, 3));
  EXPECT_THAT(Prefixes(finder, "a.bc"), ElementsAre(1));
  EXPECT_THAT(Prefixes(finder, "a..b"), ElementsAre(1, 2));
  EXPECT_THAT(Prefixes(finder, "c.a"), ElementsAre());
}

// One search for each pattern in each text would be 10^9 of them.
TEST(TextFinder, TakesNoLongerForManyPatterns) {
  std::vector<std::string> texts;
  for (int i = 0; i < 100'000; ++i) {
    texts.push_back("Torch.f" + std::to_string(i) + ".");
  }
  const TextFinder finder(std::vector<std::string_view>(texts.begin(), texts.end()));
  for (uint32_t i = 0; i < 10'000; ++i) {
    ASSERT_EQ(finder.First("x." + texts[i] + "0.forward"), i);
  }
}

// Each of the letters ends 2,000 of the patterns.
TEST(TextFinder, FindsEachOfNestedPatternsOnce) {
  std::vector<std::string> texts;
  for (size_t i = 1; i <= 2000; ++i) {
    texts.emplace_back(i, 'a');
  }
  const TextFinder finder(std::vector<std::string_view>(texts.begin(), texts.end()));
  EXPECT_EQ(finder.All(std::string(1'000'000, 'a')).size(), texts.size());
}

}  // namespace
}  // namespace msprobe::base
