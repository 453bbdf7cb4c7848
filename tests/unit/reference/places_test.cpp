// Elements come from the right places, whatever shapes, orders of dims and numbers of threads are:
// held against one loop over the indices.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/reference/arithmetic/arithmetic.h"
#include "tests/unit/reference/test_pool.h"

namespace msprobe::reference {
namespace {

Arithmetic Taping() { return {Rounding::Of(DType::kFloat32, false), Pool(), true}; }

size_t Count(const Shape& shape) { return static_cast<size_t>(ElementCount(shape)); }

// 1, 2, 3, ... with errors 0.5, 1, 1.5, ...
Value Counted(const Shape& shape) {
  std::vector<double> value(Count(shape));
  std::iota(value.begin(), value.end(), 1);
  std::vector<double> error = value;
  for (double& one : error) {
    one /= 2;
  }
  auto tensor = std::make_shared<Tensor>(*MakeValue(shape, std::move(value), std::move(error)));
  tensor->wants_gradient = true;
  return tensor;
}

// For each element of `shape`, the sum of place * stride over its dims.
std::vector<size_t> Places(const Shape& shape, const Shape& strides) {
  std::vector<size_t> places(Count(shape), 0);
  for (size_t i = 0; i < places.size(); ++i) {
    size_t rest = i;
    for (size_t dim = shape.size(); dim-- > 0;) {
      const auto size = static_cast<size_t>(shape[dim]);
      places[i] += rest % size * static_cast<size_t>(strides[dim]);
      rest /= size;
    }
  }
  return places;
}

// Sums side by side and sums one behind the other, of the same terms in the same order.
TEST(Sum, OfColumnsIsThatOfRows) {
  for (const auto& [terms, count] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 5}, {2, 1}, {3, 64}, {7, 65}, {100, 130}, {700, 300}}) {
    const Shape shape = {terms, count};
    std::vector<double> numbers(Count(shape));
    std::vector<double> errors(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = std::sin(static_cast<double>(i)) * std::exp2(static_cast<double>(i % 40));
      errors[i] = std::fabs(std::cos(static_cast<double>(i)));
    }
    if (terms == 7) {
      numbers[3] = std::numeric_limits<double>::infinity();
      numbers[4] = std::numeric_limits<double>::quiet_NaN();
      numbers[5] = 1e308;
      numbers[5 + static_cast<size_t>(count)] = 1e308;
    }
    for (const bool exact : {true, false}) {
      const Value x = MakeValue(shape, numbers, exact ? Numbers() : Numbers(errors));
      const Arithmetic m(Rounding::Of(DType::kFloat32, false), Pool(), false);
      const Value columns = m.Sum(x, {0}, false);
      const Value rows = m.Sum(m.Permute(x, {1, 0}), {1}, false);
      ASSERT_EQ(columns->shape, rows->shape);
      for (size_t i = 0; i < rows->size(); ++i) {
        EXPECT_TRUE(std::isnan(rows->value[i]) ? std::isnan(columns->value[i])
                                               : std::bit_cast<uint64_t>(columns->value[i]) ==
                                                     std::bit_cast<uint64_t>(rows->value[i]));
        EXPECT_EQ(columns->error[i], rows->error[i]);
      }
    }
  }
}

// Whatever changes a tensor of its own leaves those alone that have the same elements.
TEST(Numbers, OfACopyAreItsOwn) {
  const Value x = MakeValue({2}, {1, 2}, {0.5, 0.5});
  const Value same = SameElements(*x, {1, 2});
  EXPECT_EQ(same->value.data(), x->value.data());
  Tensor copy = *same;
  copy.value[0] = 7;
  copy.error[1] = 9;
  EXPECT_EQ(x->value[0], 1);
  EXPECT_EQ(same->error[1], 0.5);
}

struct Order {
  Shape shape;
  std::vector<int64_t> dims;
};

TEST(Permute, TakesEveryElementFromItsPlace) {
  const std::vector<Order> orders = {
      {{}, {}},
      {{5}, {0}},
      {{1, 1}, {1, 0}},
      {{7, 9}, {1, 0}},
      {{300, 700}, {1, 0}},
      {{2, 3, 4}, {0, 1, 2}},
      {{2, 3, 4}, {0, 2, 1}},
      {{2, 3, 4}, {2, 0, 1}},
      {{2, 3, 4}, {2, 1, 0}},
      {{4, 65, 8, 32}, {0, 2, 1, 3}},
      {{4, 65, 8, 32}, {0, 2, 3, 1}},
      {{4, 65, 8, 32}, {3, 1, 2, 0}},
      {{1, 65, 1, 32}, {3, 0, 1, 2}},
      {{2, 1, 3, 1, 4, 5}, {4, 1, 0, 3, 2, 5}},
      {{3, 0, 2}, {2, 1, 0}},
      {{0, 3}, {1, 0}},
  };
  for (const auto& [shape, dims] : orders) {
    SCOPED_TRACE(ShapeText(shape) + " by " + ShapeText(dims));
    const Value x = Counted(shape);
    const Value moved = Taping().Permute(x, dims);
    ASSERT_NE(moved, nullptr);
    const Shape own = ContiguousStrides(shape);
    Shape strides;
    for (size_t i = 0; i < dims.size(); ++i) {
      strides.push_back(own[static_cast<size_t>(dims[i])]);
      EXPECT_EQ(moved->shape[i], shape[static_cast<size_t>(dims[i])]);
    }
    const std::vector<size_t> places = Places(moved->shape, strides);
    ASSERT_EQ(moved->size(), places.size());
    for (size_t i = 0; i < places.size(); ++i) {
      ASSERT_EQ(moved->value[i], x->value[places[i]]) << i;
      ASSERT_EQ(moved->error[i], x->error[places[i]]) << i;
    }
  }
}

TEST(Permute, HandsGradientsBackToWhereTheElementsCameFrom) {
  const Arithmetic arithmetic = Taping();
  const Value x = Counted({4, 65, 8, 32});
  const std::vector<int64_t> order = {3, 1, 2, 0};
  const Value moved = arithmetic.Permute(x, order);
  // As gradient the elements themselves: each comes back to its own place.
  const Gradients gradients = FollowGradients(arithmetic, {moved}, {moved});
  const Value& gradient = gradients.of.at(x.get());
  EXPECT_EQ(gradient->shape, x->shape);
  EXPECT_EQ(gradient->value, x->value);
  EXPECT_EQ(gradient->error, x->error);
}

struct Broadcasts {
  Shape shape;
  Shape whole;
};

TEST(Expand, RepeatsElementsAndAddsTheirGradients) {
  const std::vector<Broadcasts> all = {
      {{}, {4000}},           {{1}, {5, 6}},       {{3}, {2, 3}},
      {{300, 1}, {300, 700}}, {{3, 1}, {2, 3, 4}}, {{1, 3, 1, 5}, {2, 3, 4, 5}},
      {{1, 1, 7}, {2, 3, 7}}, {{1}, {0}},
  };
  for (const auto& [shape, whole] : all) {
    SCOPED_TRACE(ShapeText(shape) + " to " + ShapeText(whole));
    const Arithmetic arithmetic = Taping();
    const Value x = Counted(shape);
    const Value expanded = arithmetic.Expand(x, whole);
    ASSERT_NE(expanded, nullptr);
    ASSERT_EQ(expanded->shape, whole);
    const std::vector<size_t> places = Places(whole, BroadcastStrides(shape, whole));
    std::vector<double> sums(x->size(), 0);
    for (size_t i = 0; i < places.size(); ++i) {
      ASSERT_EQ(expanded->value[i], x->value[places[i]]) << i;
      ASSERT_EQ(expanded->error[i], x->error[places[i]]) << i;
      sums[places[i]] += 1;
    }
    const Value ones = arithmetic.Filled(whole, 1);
    const Gradients gradients = FollowGradients(arithmetic, {expanded}, {ones});
    EXPECT_EQ(gradients.of.at(x.get())->value, sums);
  }
}

TEST(Add, TakesBroadcastOperandsFromTheirPlaces) {
  const std::vector<Broadcasts> all = {
      {{3000}, {3000}},        {{}, {5000}},     {{7}, {600, 7}},
      {{600, 1}, {600, 7}},    {{1, 1}, {9, 9}}, {{5, 1, 700}, {5, 3, 700}},
      {{3, 700}, {5, 3, 700}}, {{1}, {0}},
  };
  for (const auto& [shape, whole] : all) {
    SCOPED_TRACE(ShapeText(shape) + " with " + ShapeText(whole));
    const Arithmetic arithmetic = Taping();
    const Value a = Counted(shape);
    const Value b = Counted(whole);
    const std::vector<size_t> places = Places(whole, BroadcastStrides(shape, whole));
    const double unit = arithmetic.rounding().unit;
    for (const Value& sum : {arithmetic.Add(a, b), arithmetic.Add(b, a)}) {
      ASSERT_NE(sum, nullptr);
      ASSERT_EQ(sum->shape, whole);
      for (size_t i = 0; i < places.size(); ++i) {
        ASSERT_EQ(sum->value[i], a->value[places[i]] + b->value[i]) << i;
        ASSERT_NEAR(sum->error[i], a->error[places[i]] + b->error[i], 2 * unit * sum->value[i])
            << i;
      }
    }
  }
}

TEST(Where, ChoosesElementByElement) {
  const Arithmetic arithmetic = Taping();
  const Shape whole = {40, 70};
  const Value a = Counted({70});
  const Value b = Counted({40, 1});
  std::vector<double> chosen(Count(whole));
  for (size_t i = 0; i < chosen.size(); ++i) {
    chosen[i] = i % 3 == 0 ? 1 : 0;
  }
  const Value result = arithmetic.Where(MakeValue(whole, chosen), a, b);
  ASSERT_NE(result, nullptr);
  for (size_t i = 0; i < chosen.size(); ++i) {
    const size_t column = i % 70;
    const size_t row = i / 70;
    ASSERT_EQ(result->value[i], chosen[i] != 0 ? a->value[column] : b->value[row]) << i;
    ASSERT_EQ(result->error[i], chosen[i] != 0 ? a->error[column] : b->error[row]) << i;
  }
}

}  // namespace
}  // namespace msprobe::reference
