// Every implementation gives the ratios and sums of one loop over the elements, to the bit.
#include "src/kernels/ratios.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "src/tensor/float_bits.h"
#include "tests/unit/kernels/test_values.h"

namespace msprobe::kernels {
namespace {

constexpr size_t kLanes = 8;

template <typename Number>
Number Rounded(DType type, Number value) {
  if constexpr (sizeof(Number) == sizeof(float)) {
    if (type == DType::kFloat16) return tensor::Float16ToFloat(tensor::FloatToFloat16(value));
    if (type == DType::kBFloat16) return tensor::BFloat16ToFloat(tensor::FloatToBFloat16(value));
  }
  return value;
}

template <typename Number>
struct Pair {
  std::vector<Number> original, perturbed;
};

// Originals of all magnitudes around the floor, and the same but for a little.
template <typename Number>
Pair<Number> Neighbours(DType type, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> exponent(-20, 10);
  std::uniform_real_distribution<double> change(0.99, 1.01);
  Pair<Number> pair;
  for (size_t i = 0; i < count; ++i) {
    const double size = std::exp2(exponent(random)) * (random() % 2 == 0 ? 1 : -1);
    pair.original.push_back(static_cast<Number>(size));
    pair.perturbed.push_back(Rounded(type, static_cast<Number>(size * change(random))));
  }
  return pair;
}

RatioRule RuleOf(DType type) {
  return {.floor = type == DType::kBFloat16 ? 0.01001 : 0.001,
          .most = type == DType::kFloat16 ? 65504.0 : double{std::numeric_limits<float>::max()},
          .threshold = 1.004};
}

template <typename Number>
std::optional<RatioRun> RatiosOfPair(DType type, const Pair<Number>& pair, const RatioRule& rule,
                                     std::vector<Number>& ratios) {
  ratios.assign(pair.original.size(), 0);
  if constexpr (sizeof(Number) == sizeof(float)) {
    return RatiosOf(type, pair.original, pair.perturbed, rule, ratios);
  } else {
    return RatiosOf(pair.original, pair.perturbed, rule, ratios);
  }
}

template <typename Number>
void ExpectAsOneLoop(DType type) {
  for (const size_t count : {1, 7, 8, 15, 16, 17, 31, 48, 255, 256, 1000}) {
    SCOPED_TRACE(count);
    const Pair<Number> pair = Neighbours<Number>(type, count, static_cast<uint32_t>(count));
    RatioRule rule = RuleOf(type);
    rule.floor = static_cast<double>(Rounded(type, static_cast<Number>(rule.floor)));
    std::vector<Number> ratios;
    const std::optional<RatioRun> run = RatiosOfPair(type, pair, rule, ratios);
    ASSERT_TRUE(run.has_value());
    double sums[kLanes] = {};
    uint64_t exceeding = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto floor = static_cast<Number>(rule.floor);
      const Number o = std::max(std::abs(Rounded(type, pair.original[i])), floor);
      const Number p = std::max(std::abs(pair.perturbed[i]), floor);
      const Number ratio = Rounded<Number>(type, o / p);
      ASSERT_EQ(ratios[i], ratio) << i;
      const Number apart = std::max(ratio, 1 / ratio);
      sums[i % kLanes] += apart;
      exceeding += apart > rule.threshold ? 1 : 0;
    }
    EXPECT_EQ(run->largest, *std::max_element(ratios.begin(), ratios.end()));
    EXPECT_EQ(run->smallest, *std::min_element(ratios.begin(), ratios.end()));
    EXPECT_EQ(run->exceeding, exceeding);
    const double sum =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    EXPECT_EQ(std::bit_cast<uint64_t>(run->sum), std::bit_cast<uint64_t>(sum));
    rule.details = false;
    const std::optional<RatioRun> extremes = RatiosOfPair(type, pair, rule, ratios);
    ASSERT_TRUE(extremes.has_value());
    EXPECT_EQ(extremes->largest, run->largest);
    EXPECT_EQ(extremes->smallest, run->smallest);
    EXPECT_EQ(extremes->sum, 0);
    EXPECT_EQ(extremes->exceeding, 0U);
  }
}

class Ratios : public EveryTable {};

TEST_P(Ratios, AreThoseOfOneLoop) {
  ExpectAsOneLoop<float>(DType::kFloat32);
  ExpectAsOneLoop<float>(DType::kBFloat16);
  ExpectAsOneLoop<float>(DType::kFloat16);
  ExpectAsOneLoop<double>(DType::kFloat64);
}

TEST_P(Ratios, DoNotExceedTheMost) {
  std::vector<float> ratios;
  const RatioRule rule = RuleOf(DType::kFloat16);
  const std::optional<RatioRun> run =
      RatiosOfPair<float>(DType::kFloat16, {{65504, 1}, {0, 65504}}, rule, ratios);
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->largest, 65504);  // the quotient, 65504 / 0.001, would be infinite
}

TEST_P(Ratios, OfWhatIsOutOfTheOrdinaryAreNotTaken) {
  constexpr size_t kCount = 40;
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float least_nan = std::bit_cast<float>(uint32_t{0x7F800001});  // rounds to infinity
  const float most_nan = std::bit_cast<float>(uint32_t{0x7FFFFFFF});   // would round to -0
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (size_t place = 0; place < kCount; ++place) {
      for (const float odd : {infinity, -infinity, nan, least_nan, most_nan, -1.0F}) {
        std::vector<float> ratios;
        Pair<float> pair{std::vector<float>(kCount, 1), std::vector<float>(kCount, 1)};
        pair.original[place] = odd;
        EXPECT_FALSE(RatiosOfPair(type, pair, RuleOf(type), ratios).has_value())
            << place << " " << odd;
        std::swap(pair.original, pair.perturbed);
        EXPECT_FALSE(RatiosOfPair(type, pair, RuleOf(type), ratios).has_value())
            << place << " " << odd;
      }
    }
  }
  std::vector<float> ratios;
  // An original that rounds to infinity.
  EXPECT_FALSE(
      RatiosOfPair<float>(DType::kFloat16, {{65520}, {65504}}, RuleOf(DType::kFloat16), ratios));
  EXPECT_FALSE(RatiosOfPair<float>(DType::kBFloat16, {{std::numeric_limits<float>::max()}, {1}},
                                   RuleOf(DType::kBFloat16), ratios));
}

// What is off by a little, and its bounds.
struct Bounded {
  std::vector<double> found, wanted, errors;
  std::optional<BoundRun> Run(double asked) const {
    return BoundRatiosOf(found, wanted, errors,
                         {.slack = 1 + 0x1p-20, .unit = 0x1p-24, .tiny = 0x1p-150, .asked = asked});
  }
};
Bounded OffByALittle(size_t count) {
  std::mt19937 random(static_cast<uint32_t>(count));
  std::uniform_real_distribution<double> number(-100, 100);
  std::uniform_real_distribution<double> off(-2e-5, 2e-5);
  Bounded made;
  for (size_t i = 0; i < count; ++i) {
    made.wanted.push_back(i % 9 == 4 ? 0 : number(random));
    made.found.push_back(made.wanted.back() + off(random));
    made.errors.push_back(i % 5 == 0 ? 0 : std::fabs(off(random)));
  }
  return made;
}

TEST_P(Ratios, ToBoundsAreThoseOfOneLoop) {
  for (const size_t count : {0, 1, 7, 15, 16, 17, 31, 48, 255, 1000}) {
    SCOPED_TRACE(count);
    const Bounded made = OffByALittle(count);
    for (const double asked : {0.5, 1.0, 3.0}) {
      double largest = 0;
      uint64_t reaching = 0;
      for (size_t i = 0; i < count; ++i) {
        const double error = made.errors[i] * (1 + 0x1p-20);
        const double bound = error + (0x1p-24 * (std::fabs(made.wanted[i]) + error) + 0x1p-150);
        const double ratio = std::fabs(made.found[i] - made.wanted[i]) / bound;
        largest = std::max(largest, ratio);
        reaching += ratio >= asked ? 1 : 0;
      }
      const std::optional<BoundRun> run = made.Run(asked);
      ASSERT_TRUE(run.has_value());
      EXPECT_EQ(run->largest, largest);
      EXPECT_EQ(run->reaching, reaching);
    }
  }
}

TEST_P(Ratios, ToBoundsOfWhatIsNotFiniteAreNotTaken) {
  for (const size_t count : {5, 40}) {
    for (size_t place = 0; place < count; ++place) {
      for (const double odd :
           {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
            std::numeric_limits<double>::quiet_NaN()}) {
        for (const auto numbers : {&Bounded::found, &Bounded::wanted, &Bounded::errors}) {
          Bounded made = OffByALittle(count);
          (made.*numbers)[place] = odd;
          EXPECT_FALSE(made.Run(1).has_value()) << place << " " << odd;
        }
      }
    }
  }
}

MSPROBE_FOR_EVERY_TABLE(Ratios);

}  // namespace
}  // namespace msprobe::kernels
