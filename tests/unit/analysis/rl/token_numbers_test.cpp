#include "src/analysis/rl/token_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/support/view_of.h"

namespace msprobe::analysis::rl {
namespace {

using msprobe::test_support::ViewOf;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

TokenNumbers Compared(const TensorView& first, const TensorView& second,
                      const TensorView* mask = nullptr, WorstTokens* worst = nullptr) {
  WorstTokens none(0);
  const Result<TokenNumbers> numbers =
      CompareTokens(first, second, mask, 0, worst == nullptr ? none : *worst);
  EXPECT_TRUE(numbers.ok()) << numbers.status().message();
  return numbers.ok() ? *numbers : TokenNumbers();
}

std::vector<double> RandomLogProbabilities(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-6, 0);
  std::vector<double> values(count);
  std::generate(values.begin(), values.end(), [&] { return uniform(random); });
  return values;
}

// More than one block, so that the merging of blocks is seen, too.
TEST(CompareTokens, FindsTheNumbersOfAPlainLoop) {
  const size_t count = 3 * 50001;
  const std::vector<double> a = RandomLogProbabilities(count, 1);
  const std::vector<double> b = RandomLogProbabilities(count, 2);
  std::vector<double> mask(count);
  for (size_t i = 0; i < count; ++i) {
    mask[i] = i % 7 == 3 ? 0 : 1;
  }
  double max = 0;
  double sum = 0;
  double log_sum = 0;
  uint64_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    if (mask[i] != 0) {
      const double difference = std::fabs(std::exp(a[i]) - std::exp(b[i]));
      max = std::max(max, difference);
      sum += difference;
      log_sum += a[i] - b[i];
      ++kept;
    }
  }
  const double mean = sum / static_cast<double>(kept);
  double squares = 0;
  for (size_t i = 0; i < count; ++i) {
    if (mask[i] != 0) {
      const double off = std::fabs(std::exp(a[i]) - std::exp(b[i])) - mean;
      squares += off * off;
    }
  }
  const TensorView mask_view = ViewOf(mask, {3, 50001});
  const TokenNumbers numbers = Compared(ViewOf(a, {3, 50001}), ViewOf(b, {3, 50001}), &mask_view);
  EXPECT_EQ(numbers.tokens, kept);
  EXPECT_EQ(numbers.masked, count - kept);
  EXPECT_EQ(numbers.different, kept);
  EXPECT_EQ(numbers.max_difference, max);
  EXPECT_NEAR(numbers.difference.mean(), mean, 1e-12);
  EXPECT_NEAR(numbers.difference.standard_deviation(),
              std::sqrt(squares / static_cast<double>(kept)), 1e-12);
  EXPECT_NEAR(numbers.log_difference.mean(), log_sum / static_cast<double>(kept), 1e-11);
}

TEST(CompareTokens, FindsTheWorstOfAPlainSort) {
  const std::vector<double> a = RandomLogProbabilities(5000, 3);
  const std::vector<double> b = RandomLogProbabilities(5000, 4);
  std::vector<double> differences;
  for (size_t i = 0; i < a.size(); ++i) {
    differences.push_back(std::fabs(std::exp(a[i]) - std::exp(b[i])));
  }
  std::sort(differences.rbegin(), differences.rend());
  WorstTokens worst(10);
  Compared(ViewOf(a, {50, 100}), ViewOf(b, {50, 100}), nullptr, &worst);
  const std::vector<WorstToken> tokens = worst.Sorted();
  ASSERT_EQ(tokens.size(), 10u);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto index = static_cast<size_t>(tokens[i].sequence * 100 + tokens[i].position);
    EXPECT_EQ(tokens[i].difference, differences[i]);
    EXPECT_EQ(tokens[i].first, a[index]);
    EXPECT_EQ(tokens[i].second, b[index]);
  }
}

TEST(CompareTokens, LeavesOutNanAndWhatIsNoLogProbability) {
  const std::vector<double> a = {-1, kNan, kNan, 0.5, kInfinity, -2, 0.05};
  const std::vector<double> b = {-1, kNan, -3, -1, -1, 800, 0.05};
  const TokenNumbers numbers = Compared(ViewOf(a, {7}), ViewOf(b, {7}));
  EXPECT_EQ(numbers.tokens, 2u);
  EXPECT_EQ(numbers.different, 4u);
  EXPECT_EQ(numbers.first.nan, 2u);
  EXPECT_EQ(numbers.second.nan, 1u);
  EXPECT_EQ(numbers.first.too_large, 2u);
  EXPECT_EQ(numbers.second.too_large, 1u);
  EXPECT_EQ(numbers.max_difference, 0);
  EXPECT_EQ(numbers.difference.mean(), 0);
}

TEST(CompareTokens, TakesMinusInfinityForProbabilityZero) {
  const std::vector<double> a = {-kInfinity, -kInfinity, -1};
  const std::vector<double> b = {std::log(0.75), -kInfinity, -1.5};
  WorstTokens worst(5);
  const TokenNumbers numbers = Compared(ViewOf(a, {3}), ViewOf(b, {3}), nullptr, &worst);
  EXPECT_EQ(numbers.tokens, 3u);
  EXPECT_EQ(numbers.different, 2u);
  EXPECT_EQ(numbers.first.minus_infinity, 2u);
  EXPECT_EQ(numbers.second.minus_infinity, 1u);
  EXPECT_NEAR(numbers.max_difference, 0.75, 1e-15);
  EXPECT_EQ(numbers.log_difference.count(), 1u);
  EXPECT_EQ(numbers.log_difference.mean(), 0.5);
  EXPECT_EQ(worst.Sorted().front().position, 0);
}

TEST(CompareTokens, CountsNothingWhereTheMaskIsZero) {
  const std::vector<double> a = {-1, kNan, 5, -kInfinity};
  const std::vector<double> b = {-1, -1, -1, -1};
  const std::vector<double> mask = {1, 0, 0, 0};
  const TensorView mask_view = ViewOf(mask, {4});
  const TokenNumbers numbers = Compared(ViewOf(a, {4}), ViewOf(b, {4}), &mask_view);
  EXPECT_EQ(numbers.tokens, 1u);
  EXPECT_EQ(numbers.masked, 3u);
  EXPECT_EQ(numbers.different, 0u);
  EXPECT_EQ(numbers.first.nan + numbers.first.too_large + numbers.first.minus_infinity, 0u);
}

TEST(CompareTokens, ComparesTheCommonPartOfOtherShapes) {
  const std::vector<double> a = {-1, -2, -3, -4, -5, -6};
  const std::vector<double> b = {-1, -2, -4, -5};
  const std::vector<double> mask = {1, 1, 1, 1, 0, 1};
  const TensorView mask_view = ViewOf(mask, {2, 3});
  WorstTokens worst(5);
  const TokenNumbers numbers = Compared(ViewOf(a, {2, 3}), ViewOf(b, {2, 2}), &mask_view, &worst);
  EXPECT_EQ(numbers.tokens, 3u);
  EXPECT_EQ(numbers.masked, 1u);
  EXPECT_EQ(numbers.different, 0u);
}

TEST(CompareTokens, NumbersSequencesOverAllAxesOfTheFirstArrayButTheLast) {
  std::vector<double> a(static_cast<size_t>(2 * 3 * 4), -1);
  const std::vector<double> b(static_cast<size_t>(2 * 2 * 4), -1);
  a[(1 * 3 + 1) * 4 + 2] = -3;
  WorstTokens worst(5);
  Compared(ViewOf(a, {2, 3, 4}), ViewOf(b, {2, 2, 4}), nullptr, &worst);
  const std::vector<WorstToken> tokens = worst.Sorted();
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(tokens[0].sequence, 4);
  EXPECT_EQ(tokens[0].position, 2);
}

TEST(CompareTokens, TakesASingleNumberForASequenceOfOneToken) {
  const std::vector<double> a = {-1};
  const std::vector<double> b = {-2};
  WorstTokens worst(5);
  EXPECT_EQ(Compared(ViewOf(a, {}), ViewOf(b, {}), nullptr, &worst).tokens, 1u);
  ASSERT_EQ(worst.Sorted().size(), 1u);
  EXPECT_EQ(worst.Sorted()[0].sequence, 0);
  EXPECT_EQ(worst.Sorted()[0].position, 0);
}

TEST(CompareTokens, RefusesAMaskOfAnotherShapeAndOtherNumbersOfAxes) {
  const std::vector<double> values = {-1, -2, -3, -4};
  const TensorView mask = ViewOf(values, {4});
  WorstTokens worst(5);
  EXPECT_NE(CompareTokens(ViewOf(values, {2, 2}), ViewOf(values, {2, 2}), &mask, 0, worst)
                .status()
                .message()
                .find("mask"),
            std::string::npos);
  EXPECT_FALSE(CompareTokens(ViewOf(values, {2, 2}), ViewOf(values, {4}), nullptr, 0, worst).ok());
}

TEST(Moments, OfPartsAreThoseOfTheWhole) {
  const std::vector<double> values = {1e6 + 1, 1e6 + 2, 1e6 + 4, 1e6 + 8, 1e6 + 16};
  Moments whole;
  whole.Add(values);
  for (size_t cut = 0; cut <= values.size(); ++cut) {
    Moments parts;
    Moments rest;
    parts.Add(std::span(values).first(cut));
    rest.Add(std::span(values).subspan(cut));
    parts.Add(rest);
    EXPECT_EQ(parts.count(), 5u);
    EXPECT_NEAR(parts.mean(), 1e6 + 6.2, 1e-9);
    EXPECT_NEAR(parts.standard_deviation(), std::sqrt(29.76), 1e-9);
  }
  EXPECT_EQ(Moments().standard_deviation(), 0);
}

}  // namespace
}  // namespace msprobe::analysis::rl
