#include "src/analysis/bisect/search.h"

#include <cmath>
#include <cstddef>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::analysis::bisect {
namespace {

struct Simulated {
  size_t count = 0;
  size_t culprit = 0;
  double false_bad = 0;
  double false_good = 0;
  std::set<size_t> skipped = {};
};

struct Ran {
  Boundary boundary;
  size_t runs = 0;
  int64_t repeats = 0;
};

Ran Search(const Simulated& of, uint32_t seed, int64_t repeats = 30) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> lot(0, 1);
  Ran ran;
  Noise noise(repeats == 0);
  Budget budget{repeats};
  std::vector<Tally> seen;
  Result<Boundary> boundary =
      FindBoundary(of.count, seen, false, noise, budget, [&](size_t position) -> Result<Outcome> {
        ++ran.runs;
        if (of.skipped.count(position) > 0) {
          return Outcome::kSkip;
        }
        const bool is_bad = position >= of.culprit;
        const bool lies = lot(random) < (is_bad ? of.false_good : of.false_bad);
        return is_bad != lies ? Outcome::kBad : Outcome::kGood;
      });
  EXPECT_TRUE(boundary.ok()) << boundary.status().message();
  ran.boundary = boundary.ok() ? *boundary : Boundary{};
  ran.repeats = repeats - budget.repeats;
  return ran;
}

TEST(Search, FindsEveryPlaceInLog2RunsWhereRunsNeverLie) {
  for (const size_t count : {size_t{1}, size_t{2}, size_t{3}, size_t{17}, size_t{64}}) {
    const auto most = 2 + static_cast<size_t>(std::ceil(std::log2(static_cast<double>(count))));
    for (size_t culprit = 1; culprit <= count; ++culprit) {
      for (const int64_t repeats : {0, 30}) {
        const Ran ran = Search({count, culprit}, 0, repeats);
        EXPECT_EQ(ran.boundary.end, Boundary::End::kFound);
        EXPECT_EQ(ran.boundary.first, culprit) << count;
        EXPECT_EQ(ran.boundary.last, culprit);
        EXPECT_LE(ran.runs - static_cast<size_t>(ran.repeats), most);
        EXPECT_LE(ran.repeats, repeats == 0 ? 0 : 5);
      }
    }
  }
}

TEST(Search, IsRightInMostCasesWhereRunsLie) {
  size_t right = 0;
  constexpr size_t kCases = 300;
  for (uint32_t seed = 0; seed < kCases; ++seed) {
    const Ran ran = Search({32, 1 + seed % 32, 0.02, 0.15}, seed);
    right += ran.boundary.end == Boundary::End::kFound && ran.boundary.first == 1 + seed % 32;
  }
  EXPECT_GE(right, kCases * 95 / 100);
}

TEST(Search, SaysThatSidesAreAlike) {
  EXPECT_EQ(Search({16, 17}, 1).boundary.end, Boundary::End::kNeverBad);
  EXPECT_EQ(Search({16, 0}, 1).boundary.end, Boundary::End::kAlwaysBad);
  EXPECT_EQ(Search({16, 17}, 1, 0).boundary.end, Boundary::End::kNeverBad);
  EXPECT_EQ(Search({16, 0}, 1, 0).boundary.end, Boundary::End::kAlwaysBad);
  size_t flaky = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    flaky += Search({16, 8, 0.5, 0.5}, seed).boundary.end == Boundary::End::kFlaky;
  }
  EXPECT_GE(flaky, 90);
}

TEST(Search, GivesARangeWhereStatesCannotBeJudged) {
  const Ran ran = Search({16, 9, 0, 0, {8, 9, 10}}, 0);
  EXPECT_EQ(ran.boundary.end, Boundary::End::kFound);
  EXPECT_EQ(ran.boundary.first, 8U);
  EXPECT_EQ(ran.boundary.last, 11U);
}

TEST(Search, AsksAgainNearTheBorder) {
  Noise noise;
  Budget budget{10};
  Tally tally;
  size_t runs = 0;
  const Result<State> state = Judge(tally, 0.5, noise, budget, [&runs]() -> Result<Outcome> {
    ++runs;
    return runs < 3 ? Outcome::kWeaklyBad : Outcome::kBad;
  });
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(*state, State::kBad);
  EXPECT_GE(runs, 3U);
}

}  // namespace
}  // namespace msprobe::analysis::bisect
