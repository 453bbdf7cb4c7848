// Gradients of taped results against differences.
#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "src/reference/arithmetic/arithmetic.h"

namespace msprobe::reference {
namespace {

using Function = std::function<Value(const Arithmetic&, const Value&)>;

Value Input(std::vector<double> numbers, const Shape& shape) {
  auto tensor = std::make_shared<Tensor>();
  tensor->shape = shape;
  tensor->value = std::move(numbers);
  tensor->wants_gradient = true;
  return tensor;
}

// Sum of f(x) weighted by 1, 2, 3, ...: its gradient, and the one by differences.
void ExpectGradient(const Function& f, const std::vector<double>& x, const Shape& shape) {
  base::ThreadPool pool(1);
  const Arithmetic arithmetic(Rounding::Of(DType::kFloat64, false), pool, true);
  const auto weighted = [&](const std::vector<double>& at) {
    const Value y = f(arithmetic, MakeValue(shape, at));
    double sum = 0;
    for (size_t i = 0; i < y->size(); ++i) {
      sum += static_cast<double>(i + 1) * y->value[i];
    }
    return sum;
  };
  const Value input = Input(x, shape);
  const Value result = f(arithmetic, input);
  std::vector<double> weights(result->size());
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<double>(i + 1);
  }
  const Gradients gradients =
      FollowGradients(arithmetic, {result}, {MakeValue(result->shape, weights)});
  ASSERT_TRUE(gradients.of.contains(input.get()));
  const Value gradient = gradients.of.at(input.get());
  for (size_t i = 0; i < x.size(); ++i) {
    constexpr double kStep = 1e-5;
    std::vector<double> above = x;
    std::vector<double> below = x;
    above[i] += kStep;
    below[i] -= kStep;
    EXPECT_NEAR(gradient->value[i], (weighted(above) - weighted(below)) / (2 * kStep), 1e-6) << i;
  }
}

const std::vector<double> kNumbers = {0.3, -1.2, 2.5, 0.7, -0.4, 1.1};

TEST(Gradients, OfRows) {
  const auto softmax = [](const Arithmetic& m, const Value& x) { return m.Softmax(x); };
  const auto log_softmax = [](const Arithmetic& m, const Value& x) { return m.LogSoftmax(x); };
  const auto norm = [](const Arithmetic& m, const Value& x) { return m.Normalize(x, 0.1, false); };
  const auto rms = [](const Arithmetic& m, const Value& x) { return m.Normalize(x, 0.1, true); };
  for (const Function& f : std::vector<Function>{softmax, log_softmax, norm, rms}) {
    ExpectGradient(f, kNumbers, {2, 3});
  }
}

TEST(Gradients, OfProductsWithBothOperandsTransposedOrNot) {
  const Value other = MakeValue({3, 2}, {1, -2, 0.5, 3, -1, 2});
  for (const bool first : {false, true}) {
    ExpectGradient(
        [&](const Arithmetic& m, const Value& x) {
          return first ? m.MatMul(x, other, true, false) : m.MatMul(other, x, false, true);
        },
        kNumbers, first ? Shape{3, 2} : Shape{3, 2});
  }
}

TEST(Gradients, OfBroadcastArithmeticAreSummed) {
  const Value row = MakeValue({3}, {2, -1, 0.5});
  ExpectGradient(
      [&](const Arithmetic& m, const Value& x) {
        return m.Divide(m.Multiply(m.Add(x, row), row), m.Add(m.Multiply(x, x), m.Filled({}, 2)));
      },
      {0.3, -1.2}, {2, 1});
}

TEST(Gradients, OfMovedElements) {
  ExpectGradient(
      [](const Arithmetic& m, const Value& x) {
        return m.Sum(m.Take({m.Permute(x, {1, 0})}, {2, 4}, {0, 0, 5, 3, -1, 2, 1, 0}), {1}, false);
      },
      kNumbers, {2, 3});
}

}  // namespace
}  // namespace msprobe::reference
