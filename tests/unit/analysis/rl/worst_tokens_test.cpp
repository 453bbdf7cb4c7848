#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/rl/token_numbers.h"

namespace msprobe::analysis::rl {
namespace {

std::vector<double> DifferencesOf(const WorstTokens& worst) {
  std::vector<double> differences;
  for (const WorstToken& token : worst.Sorted()) {
    differences.push_back(token.difference);
  }
  return differences;
}

TEST(WorstTokens, KeepsTheLargestDifferencesInFallingOrder) {
  WorstTokens worst(3);
  for (const double difference : {0.1, 0.5, 0.2, 0.4, 0.3, 0.05}) {
    worst.Add({difference, 0, 0, 0, -1, -2});
  }
  EXPECT_EQ(DifferencesOf(worst), (std::vector<double>{0.5, 0.4, 0.3}));
  EXPECT_TRUE(worst.Wants(0.3));
  EXPECT_FALSE(worst.Wants(0.29));
}

TEST(WorstTokens, KeepsTheEarlierAmongEquals) {
  std::vector<WorstToken> tokens;
  for (size_t pair = 0; pair < 3; ++pair) {
    for (int64_t sequence = 0; sequence < 3; ++sequence) {
      for (int64_t position = 0; position < 3; ++position) {
        tokens.push_back({pair == 2 ? 0.75 : 0.5, pair, sequence, position, -1, -2});
      }
    }
  }
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(tokens.begin(), tokens.end(), random);
    WorstTokens first_half(13);
    WorstTokens second_half(13);
    for (size_t i = 0; i < tokens.size(); ++i) {
      (i % 2 == 0 ? first_half : second_half).Add(tokens[i]);
    }
    first_half.Add(second_half);
    const std::vector<WorstToken> kept = first_half.Sorted();
    ASSERT_EQ(kept.size(), 13u);
    for (size_t i = 0; i < kept.size(); ++i) {
      const size_t number = i < 9 ? i : i - 9;  // all of pair 2, then the begin of pair 0
      EXPECT_EQ(kept[i].pair, i < 9 ? 2u : 0u);
      EXPECT_EQ(kept[i].sequence, static_cast<int64_t>(number / 3));
      EXPECT_EQ(kept[i].position, static_cast<int64_t>(number % 3));
    }
  }
}

TEST(WorstTokens, KeepsNothingWithoutRoom) {
  WorstTokens worst(0);
  EXPECT_FALSE(worst.Wants(1));
  worst.Add({1, 0, 0, 0, 0, -1});
  EXPECT_TRUE(worst.Sorted().empty());
}

}  // namespace
}  // namespace msprobe::analysis::rl
