// The bounds hold of what float32 arithmetic really does, in different orders, and are not much
// larger.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "src/reference/arithmetic/arithmetic.h"
#include "tests/unit/reference/test_pool.h"

namespace msprobe::reference {
namespace {

Arithmetic Plain(DType dtype = DType::kFloat32, bool steps = false) {
  return {Rounding::Of(dtype, steps), Pool(), false};
}

std::vector<float> Random(size_t count, unsigned seed, float middle = 0) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw(middle, 1);
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    number = draw(engine);
  }
  return numbers;
}

Value Of(const std::vector<float>& numbers, const Shape& shape) {
  return MakeValue(shape, std::vector<double>(numbers.begin(), numbers.end()));
}

// The largest error over its bound.
double Worst(const Value& exact, const std::vector<float>& computed) {
  EXPECT_NE(exact, nullptr);
  EXPECT_EQ(exact->size(), computed.size());
  double worst = 0;
  for (size_t i = 0; i < computed.size(); ++i) {
    worst = std::max(
        worst, std::fabs(exact->value[i] - static_cast<double>(computed[i])) / exact->error_at(i));
  }
  return worst;
}

TEST(Bounds, SumsInAnyOrderAreWithin) {
  constexpr size_t kCount = 5000;
  for (const float middle : {0.0F, 3.0F}) {
    std::vector<float> numbers = Random(kCount, 1, middle);
    const Value exact = Plain().Sum(Of(numbers, {kCount}), {0}, false);
    const float forward = std::accumulate(numbers.begin(), numbers.end(), 0.0F);
    const float backward = std::accumulate(numbers.rbegin(), numbers.rend(), 0.0F);
    std::sort(numbers.begin(), numbers.end());
    const float sorted = std::accumulate(numbers.begin(), numbers.end(), 0.0F);
    for (const float sum : {forward, backward, sorted}) {
      EXPECT_LE(Worst(exact, {sum}), 1);
    }
  }
}

TEST(Bounds, ASumInBfloat16IsBeyondThatOfFloat32) {
  constexpr size_t kCount = 1000;
  std::vector<float> numbers = Random(kCount, 2);
  double sum = 0;
  for (float& number : numbers) {
    number = std::round(number * 64) / 64;
    sum = std::ldexp(std::round(std::ldexp(sum + static_cast<double>(number), 3)), -3);
  }
  const Value x = Of(numbers, {kCount});
  EXPECT_GT(Worst(Plain(DType::kFloat32).Sum(x, {0}, false), {static_cast<float>(sum)}), 1);
  EXPECT_GT(Worst(Plain(DType::kBFloat16).Sum(x, {0}, false), {static_cast<float>(sum)}), 1);
  EXPECT_LE(Worst(Plain(DType::kBFloat16, true).Sum(x, {0}, false), {static_cast<float>(sum)}), 1);
}

TEST(Bounds, ProductsOfMatricesAreWithinAndOneThatIsRoundedMoreIsNot) {
  constexpr size_t kRows = 7, kDepth = 300, kColumns = 5;
  const std::vector<float> a = Random(kRows * kDepth, 3);
  const std::vector<float> b = Random(kDepth * kColumns, 4);
  const Value exact = Plain().MatMul(Of(a, {kRows, kDepth}), Of(b, {kDepth, kColumns}));
  std::vector<float> product(kRows * kColumns);
  std::vector<float> rough(kRows * kColumns);
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kColumns; ++j) {
      for (size_t p = 0; p < kDepth; ++p) {
        product[i * kColumns + j] += a[i * kDepth + p] * b[p * kColumns + j];
      }
      rough[i * kColumns + j] = std::round(product[i * kColumns + j] * 16) / 16;
    }
  }
  EXPECT_LE(Worst(exact, product), 1);
  EXPECT_GT(Worst(exact, rough), 1);
  product[12] += 0.05F;
  EXPECT_GT(Worst(exact, product), 1);
}

TEST(Bounds, NoDepthMakesZeros) {
  const Value product = Plain().MatMul(MakeValue({2, 0}, {}), MakeValue({0, 3}, {}));
  ASSERT_NE(product, nullptr);
  EXPECT_EQ(product->shape, (Shape{2, 3}));
  EXPECT_EQ(product->value, std::vector<double>(6, 0));
}

TEST(Bounds, SoftmaxIsWithinAndOneThatIsNotNormalisedIsNot) {
  constexpr size_t kCount = 400;
  const std::vector<float> x = Random(kCount, 5);
  const Value exact = Plain().Softmax(Of(x, {kCount}));
  const float largest = *std::max_element(x.begin(), x.end());
  std::vector<float> y(kCount);
  float sum = 0;
  for (size_t i = 0; i < kCount; ++i) {
    y[i] = std::exp(x[i] - largest);
    sum += y[i];
  }
  for (float& number : y) {
    number /= sum;
  }
  EXPECT_LE(Worst(exact, y), 1);
  for (float& number : y) {
    number *= 1.001F;
  }
  EXPECT_GT(Worst(exact, y), 1);
}

TEST(Bounds, NormalisationIsWithinAndOneWithAnotherEpsilonIsNot) {
  constexpr size_t kCount = 256;
  const std::vector<float> x = Random(kCount, 6, 10);
  const auto normalised = [&](float epsilon) {
    float mean = std::accumulate(x.begin(), x.end(), 0.0F) / kCount;
    float variance = 0;
    for (const float number : x) {
      variance += (number - mean) * (number - mean);
    }
    const float inverse = 1 / std::sqrt(variance / kCount + epsilon);
    std::vector<float> y;
    for (const float number : x) {
      y.push_back((number - mean) * inverse);
    }
    return y;
  };
  const Value exact = Plain().Normalize(Of(x, {kCount}), 1e-5, false);
  EXPECT_LE(Worst(exact, normalised(1e-5F)), 1);
  EXPECT_GT(Worst(exact, normalised(1e-3F)), 1);
}

TEST(Bounds, AResultOutOfProportionIsRefused) {
  const uint64_t loaded = 10;
  const Arithmetic arithmetic(Rounding::Of(DType::kFloat32, false), Pool(), false, &loaded);
  const Value one = MakeValue({1}, {1.0});
  EXPECT_EQ(arithmetic.Expand(one, {1 << 20, 1 << 20}), nullptr);
  EXPECT_NE(arithmetic.problem().find("out of proportion"), std::string::npos);
}

TEST(Bounds, ProbableBoundsServeOnlySixteenBits) {
  EXPECT_EQ(Rounding::Of(DType::kBFloat16, true).Gamma(10000), 6 * 100 * 0x1p-8);
  EXPECT_GT(Rounding::Of(DType::kFloat32, false).Gamma(10000), 10000 * 0x1p-24);
}

}  // namespace
}  // namespace msprobe::reference
