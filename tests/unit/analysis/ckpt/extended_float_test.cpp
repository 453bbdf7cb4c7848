// The software's arithmetic against that of a processor which has it: on x86-64 every bit,
// elsewhere the digest that was found there.
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/ckpt/metrics.h"

namespace msprobe::analysis::ckpt {
namespace {

// Any double, subnormal numbers among them, and many of similar size, where sums cancel.
class Operands {
 public:
  double Next() {
    const uint64_t bits = random_();
    switch (bits % 4) {
      case 0:
        return Finite(std::bit_cast<double>(random_()));
      case 1:
        return std::ldexp(static_cast<double>(static_cast<int64_t>(random_())),
                          static_cast<int>(bits >> 8U) % 70 - 35);
      case 2:
        return static_cast<double>(static_cast<int64_t>(bits) >> 50);
      default:
        return std::bit_cast<double>((bits >> 12U) | 0x3FF0000000000000U);
    }
  }
  uint64_t Integer() { return random_() >> (random_() % 64); }

 private:
  static double Finite(double value) { return std::isfinite(value) ? value : 1.0; }
  std::mt19937_64 random_{2024};
};

// Everything that is computed from a pair; of the roots also what a double keeps of them.
template <class Number>
std::vector<Number> ResultsOf(double x, double y, uint64_t integer) {
  const Number a = x;
  const Number b = y;
  const Number c = integer;
  const Number d = static_cast<int64_t>(integer);
  std::vector<Number> results = {a + b,        a - b,         a * b,
                                 a * a + b,    a * a - b * b, a * a * b + c,
                                 c * d - a,    c * c + a * a, SquareRoot(a * a + b * b),
                                 SquareRoot(c)};
  if (y != 0) {
    results.insert(results.end(), {a / b, c / b, (a * a + c) / (b * b), SquareRoot(c / (b * b))});
  }
  return results;
}

constexpr int kPairs = 200'000;

#if LDBL_MANT_DIG == 64
TEST(ExtendedFloat, ComputesEveryBitAsTheProcessorDoes) {
  Operands operands;
  for (int i = 0; i < kPairs; ++i) {
    const double x = operands.Next();
    const double y = operands.Next();
    const uint64_t integer = operands.Integer();
    const auto soft = ResultsOf<SoftExtendedFloat>(x, y, integer);
    const auto hard = ResultsOf<long double>(x, y, integer);
    ASSERT_EQ(soft.size(), hard.size());
    for (size_t k = 0; k < soft.size(); ++k) {
      // The upper bits as a double, then the bits that it leaves out.
      const auto upper = static_cast<double>(hard[k]);
      ASSERT_EQ(std::bit_cast<uint64_t>(static_cast<double>(soft[k])),
                std::bit_cast<uint64_t>(upper))
          << x << " " << y << " " << integer << ", result " << k;
      if (std::isfinite(upper)) {
        ASSERT_EQ(static_cast<double>(soft[k] - SoftExtendedFloat(upper)),
                  static_cast<double>(hard[k] - static_cast<long double>(upper)))
            << x << " " << y << " " << integer << ", result " << k;
      }
    }
  }
}
#endif

TEST(ExtendedFloat, GivesTheSameBitsOnEveryMachine) {
  Operands operands;
  uint64_t digest = 0;
  for (int i = 0; i < kPairs; ++i) {
    const double x = operands.Next();
    const double y = operands.Next();
    for (const ExtendedFloat& result : ResultsOf<ExtendedFloat>(x, y, operands.Integer())) {
      digest = std::rotl(digest, 7) * 0x9E3779B97F4A7C15U ^
               std::bit_cast<uint64_t>(static_cast<double>(result));
    }
  }
  EXPECT_EQ(digest, 16107437798482395930U);
}

TEST(ExtendedFloat, HoldsEveryIntegerOf64Bits) {
  const SoftExtendedFloat largest = std::numeric_limits<uint64_t>::max();
  const SoftExtendedFloat least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(static_cast<double>(largest - SoftExtendedFloat(uint64_t{1} << 63U)), 0x1p63);
  EXPECT_TRUE(largest - SoftExtendedFloat(std::numeric_limits<uint64_t>::max() - 1) ==
              SoftExtendedFloat(1));
  EXPECT_EQ(static_cast<double>(least), -0x1p63);
}

TEST(ExtendedFloat, KeepsInfinitiesAndNan) {
  const double infinity = std::numeric_limits<double>::infinity();
  const SoftExtendedFloat positive = infinity;
  const SoftExtendedFloat negative = -infinity;
  const SoftExtendedFloat nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(positive == positive);
  EXPECT_FALSE(positive == negative);
  EXPECT_FALSE(nan == nan);
  EXPECT_FALSE(IsFinite(positive));
  EXPECT_FALSE(IsFinite(nan));
  EXPECT_TRUE(IsNan(nan));
  EXPECT_FALSE(IsNan(negative));
  EXPECT_EQ(static_cast<double>(negative), -infinity);
  EXPECT_TRUE(std::isnan(static_cast<double>(nan)));
}

}  // namespace
}  // namespace msprobe::analysis::ckpt
