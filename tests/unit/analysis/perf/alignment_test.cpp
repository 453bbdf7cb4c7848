#include "src/analysis/perf/alignment.h"

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace msprobe::analysis::perf {
namespace {

using Keys = std::vector<uint32_t>;

Keys Letters(std::string_view text) { return Keys(text.begin(), text.end()); }

uint32_t Below(std::mt19937& random, uint32_t limit) {
  return std::uniform_int_distribution<uint32_t>(0, limit - 1)(random);
}

Keys RandomKeys(std::mt19937& random, size_t length, uint32_t names) {
  Keys keys(length);
  std::generate(keys.begin(), keys.end(), [&] { return Below(random, names); });
  return keys;
}

// The table as it is described, a number and a flag per cell.
std::vector<AlignedPair> SpelledOut(const Keys& base, const Keys& comparison) {
  const size_t n = base.size();
  const size_t m = comparison.size();
  std::vector<int> row(n + 1, 0);
  std::vector<std::vector<bool>> up(m + 1, std::vector<bool>(n + 1, false));
  for (size_t i = 1; i <= m; ++i) {
    for (size_t j = 1; j <= n; ++j) {
      if (comparison[i - 1] == base[j - 1]) {
        row[j] = i == 1 ? 1 : row[j - 1] + 1;
      } else if (i == 1) {
        row[j] = row[j - 1];
      } else if (row[j - 1] < row[j]) {
        up[i][j] = true;
      } else {
        row[j] = row[j - 1];
      }
    }
  }
  std::vector<AlignedPair> pairs;
  size_t i = m;
  size_t j = n;
  while (i > 0 && j > 0) {
    if (comparison[i - 1] == base[j - 1]) {
      pairs.push_back({static_cast<uint32_t>(--j), static_cast<uint32_t>(--i)});
    } else if (up[i][j]) {
      pairs.push_back({kUnmatched, static_cast<uint32_t>(--i)});
    } else {
      pairs.push_back({static_cast<uint32_t>(--j), kUnmatched});
    }
  }
  while (i > 0) {
    pairs.push_back({kUnmatched, static_cast<uint32_t>(--i)});
  }
  while (j > 0) {
    pairs.push_back({static_cast<uint32_t>(--j), kUnmatched});
  }
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

size_t LongestLength(const Keys& base, const Keys& comparison) {
  std::vector<size_t> last(base.size() + 1, 0);
  std::vector<size_t> row(base.size() + 1, 0);
  for (const uint32_t key : comparison) {
    for (size_t j = 1; j <= base.size(); ++j) {
      row[j] = key == base[j - 1] ? last[j - 1] + 1 : std::max(row[j - 1], last[j]);
    }
    last = row;
  }
  return last.back();
}

size_t Matches(const std::vector<AlignedPair>& pairs) {
  return static_cast<size_t>(std::count_if(pairs.begin(), pairs.end(), [](const auto& pair) {
    return pair.base != kUnmatched && pair.comparison != kUnmatched;
  }));
}

// Every element once and in order, pairs only of equal ones.
void ExpectValid(const std::vector<AlignedPair>& pairs, const Keys& base, const Keys& comparison) {
  uint32_t next_base = 0;
  uint32_t next_comparison = 0;
  for (const AlignedPair& pair : pairs) {
    if (pair.base != kUnmatched) {
      ASSERT_EQ(pair.base, next_base++);
    }
    if (pair.comparison != kUnmatched) {
      ASSERT_EQ(pair.comparison, next_comparison++);
    }
    if (pair.base != kUnmatched && pair.comparison != kUnmatched) {
      ASSERT_EQ(base[pair.base], comparison[pair.comparison]);
    }
  }
  EXPECT_EQ(next_base, base.size());
  EXPECT_EQ(next_comparison, comparison.size());
}

std::string Drawn(const std::vector<AlignedPair>& pairs, std::string_view base,
                  std::string_view comparison) {
  std::string text;
  for (const AlignedPair& pair : pairs) {
    text += pair.base == kUnmatched ? '.' : base[pair.base];
    text += pair.comparison == kUnmatched ? '.' : comparison[pair.comparison];
    text += ' ';
  }
  return text;
}

TEST(Align, LegacyPairsAsThePythonToolDoes) {
  const auto aligned = Align(Letters("AABABBBB"), Letters("AABABBAB"), Alignment::kLegacy);
  EXPECT_EQ(Drawn(aligned.pairs, "AABABBBB", "AABABBAB"), "AA AA BB AA B. BB BB .A BB ");
  EXPECT_TRUE(aligned.is_exact);
}

TEST(Align, LegacyEqualsTheTableSpelledOut) {
  std::mt19937 random(5);
  for (int round = 0; round < 600; ++round) {
    const uint32_t names = 1 + Below(random, 12);
    const Keys base = RandomKeys(random, Below(random, 300), names);
    const Keys comparison =
        RandomKeys(random, Below(random, 300), names + (round % 2 == 0 ? 0 : 1));
    ASSERT_EQ(Align(base, comparison, Alignment::kLegacy).pairs, SpelledOut(base, comparison))
        << "round " << round;
  }
}

TEST(Align, LegacyEqualsTheTableSpelledOutWhereRunsOfEqualElementsTurnOver) {
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    const auto runs = [&random] {
      Keys keys;
      while (keys.size() < 400) {
        keys.insert(keys.end(), 1 + Below(random, 90), Below(random, 3));
      }
      return keys;
    };
    const Keys base = runs();
    const Keys comparison = runs();
    ASSERT_EQ(Align(base, comparison, Alignment::kLegacy).pairs, SpelledOut(base, comparison))
        << "round " << round;
  }
}

TEST(Align, RowsMadeAgainInBlocksChangeNothing) {
  std::mt19937 random(7);
  for (const Alignment method : {Alignment::kLegacy, Alignment::kLongest}) {
    for (int round = 0; round < 50; ++round) {
      const Keys base = RandomKeys(random, 200 + Below(random, 200), 6);
      const Keys comparison = RandomKeys(random, 200 + Below(random, 200), 6);
      std::vector<AlignedPair> pairs;
      AlignInTable(base, comparison, method, 0, 0, 1, pairs);
      ASSERT_EQ(pairs, Align(base, comparison, method).pairs) << "round " << round;
    }
  }
}

// Wide enough for tiles beside each other; runs of equal elements hand much on across their
// borders.
TEST(Align, TilesBesideEachOtherChangeNothing) {
  std::mt19937 random(11);
  for (const Alignment method : {Alignment::kLegacy, Alignment::kLongest}) {
    for (int round = 0; round < 6; ++round) {
      Keys base;
      while (base.size() < 13'000) {
        base.insert(base.end(), 1 + Below(random, round % 2 == 0 ? 300 : 3), Below(random, 4));
      }
      Keys comparison;
      for (size_t i = 0; i < base.size(); i += 1 + Below(random, 30)) {
        comparison.push_back(base[i]);
      }
      std::vector<AlignedPair> pairs;
      AlignInTable(base, comparison, method, 0, 0, 1, pairs);
      ASSERT_EQ(pairs, Align(base, comparison, method).pairs) << "round " << round;
    }
  }
}

TEST(Align, LongestIsAsLongAsItGets) {
  std::mt19937 random(8);
  for (int round = 0; round < 300; ++round) {
    const uint32_t names = 1 + Below(random, 12);
    const Keys base = RandomKeys(random, Below(random, 300), names);
    const Keys comparison = RandomKeys(random, Below(random, 300), names);
    const auto pairs = Align(base, comparison, Alignment::kLongest).pairs;
    ExpectValid(pairs, base, comparison);
    ASSERT_EQ(Matches(pairs), LongestLength(base, comparison)) << "round " << round;
  }
}

TEST(Align, AnEmptySideLeavesEverythingAlone) {
  const Keys some = {1, 2, 3};
  for (const Alignment method : {Alignment::kLegacy, Alignment::kLongest}) {
    EXPECT_TRUE(Align({}, {}, method).pairs.empty());
    ExpectValid(Align(some, {}, method).pairs, some, {});
    ExpectValid(Align({}, some, method).pairs, {}, some);
  }
}

TEST(Align, WithoutCommonElementsTheComparisonComesFirst) {
  const auto pairs = Align(Letters("AB"), Letters("XY"), Alignment::kLegacy).pairs;
  EXPECT_EQ(Drawn(pairs, "AB", "XY"), Drawn(SpelledOut(Letters("AB"), Letters("XY")), "AB", "XY"));
}

TEST(Align, BeyondTheLimitItIsStillValidAndSaysThatItIsNotExact) {
  std::mt19937 random(9);
  for (const Alignment method : {Alignment::kLegacy, Alignment::kLongest}) {
    // Twenty equal steps, of which one side lost a few operators and gained others.
    const Keys step = RandomKeys(random, 3000, 50);
    Keys base;
    for (int i = 0; i < 20; ++i) {
      base.insert(base.end(), step.begin(), step.end());
    }
    Keys comparison;
    for (const uint32_t key : base) {
      if (Below(random, 100) != 0) {
        comparison.push_back(key);
      }
      if (Below(random, 100) == 0) {
        comparison.push_back(50 + Below(random, 5));
      }
    }
    const auto aligned = Align(base, comparison, method, 1000);
    EXPECT_FALSE(aligned.is_exact);
    ExpectValid(aligned.pairs, base, comparison);
    EXPECT_GT(Matches(aligned.pairs), base.size() * 97 / 100);
  }
}

TEST(Align, BeyondTheLimitSidesWithoutLandmarksAreCutIntoPieces) {
  Keys base;
  Keys comparison;
  for (uint32_t i = 0; i < 41000; ++i) {
    comparison.push_back(i % 2);
    if (i < 40000) {
      base.push_back(i % 2);
    }
  }
  const auto aligned = Align(base, comparison, Alignment::kLongest, 1000);
  EXPECT_FALSE(aligned.is_exact);
  ExpectValid(aligned.pairs, base, comparison);
  EXPECT_GT(Matches(aligned.pairs), base.size() * 99 / 100);
}

TEST(Align, BeyondTheLimitMisleadingLandmarksAreSurvived) {
  std::mt19937 random(10);
  const Keys base = RandomKeys(random, 40000, 2);
  const Keys comparison = RandomKeys(random, 41000, 2);
  ExpectValid(Align(base, comparison, Alignment::kLegacy, 1000).pairs, base, comparison);
  const Keys strange(50000, 9);
  ExpectValid(Align(base, strange, Alignment::kLegacy, 1000).pairs, base, strange);
}

}  // namespace
}  // namespace msprobe::analysis::perf
