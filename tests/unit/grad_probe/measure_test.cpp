#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "src/grad_probe/probe.h"
#include "src/kernels/convert.h"

namespace msprobe::grad_probe {
namespace {

std::vector<Bound> BoundsOf(std::initializer_list<float> values) {
  std::vector<Bound> bounds;
  for (const float value : values) {
    bounds.push_back({value, ""});
  }
  return bounds;
}

// By the definition, element by element, in double.
std::vector<uint64_t> PlainIntervals(const std::vector<double>& values,
                                     const std::vector<Bound>& bounds) {
  std::vector<uint64_t> counts(bounds.size() + 1);
  for (const double value : values) {
    size_t at = 0;
    while (at < bounds.size() && !(value <= bounds[at].value)) {
      ++at;
    }
    ++counts[at];
  }
  return counts;
}

TEST(GradProbeMeasure, CountsAndSignsAreThoseOfAPlainLoopForEveryDtypeAndLength) {
  std::mt19937 random(3);
  std::vector<Bound> many;
  for (int i = -40; i < 40; ++i) {
    many.push_back({static_cast<double>(i) / 16, ""});
  }
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (const std::vector<Bound>& bounds :
         {BoundsOf({}), BoundsOf({0}), BoundsOf({-1, 0, 1}), many}) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{257}, size_t{70000}}) {
        std::vector<std::byte> bytes(count * DTypeSize(dtype));
        for (std::byte& byte : bytes) {
          byte =
              static_cast<std::byte>(random());  // every bit pattern: NaN, infinities, subnormals
        }
        if (count > 3) {
          std::memset(bytes.data(), 0, 2 * DTypeSize(dtype));
        }
        TensorView view;
        view.dtype = dtype;
        view.shape = {static_cast<int64_t>(count)};
        view.strides = {1};
        view.data = bytes.data();
        view.extent_bytes = bytes.size();
        std::vector<double> values(count);
        kernels::WidenToDouble(dtype, bytes, values);
        std::vector<std::byte> signs(count, std::byte{9});
        const Result<Numbers> numbers = Measure(view, Level::kL2, bounds, signs.data());
        ASSERT_TRUE(numbers.ok());
        EXPECT_EQ(numbers->intervals, PlainIntervals(values, bounds)) << count;
        uint64_t zeros = 0;
        for (size_t i = 0; i < count; ++i) {
          EXPECT_EQ(signs[i], static_cast<std::byte>(values[i] > 0 ? 1 : 0));
          zeros += values[i] == 0 ? 1 : 0;
        }
        EXPECT_EQ(numbers->zero_count, zeros);
      }
    }
  }
}

TEST(GradProbeMeasure, OneNaNMakesAllStatisticsNaNAndCountsToTheLastInterval) {
  const float values[] = {-2, std::numeric_limits<float>::quiet_NaN(), 0,
                          std::numeric_limits<float>::infinity()};
  TensorView view;
  view.shape = {4};
  view.strides = {1};
  view.data = reinterpret_cast<const std::byte*>(values);
  view.extent_bytes = sizeof values;
  const Result<Numbers> numbers = Measure(view, Level::kL2, BoundsOf({0}), nullptr);
  ASSERT_TRUE(numbers.ok());
  EXPECT_TRUE(std::isnan(numbers->max));
  EXPECT_TRUE(std::isnan(numbers->norm));
  EXPECT_EQ(numbers->intervals, (std::vector<uint64_t>{2, 2}));
}

TEST(GradProbeMeasure, NormsOfHalvesAreRoundedToTheirOwnDtype) {
  const std::vector<uint16_t> bits(5, 0x3C00);  // float16 1.0
  TensorView view;
  view.dtype = DType::kFloat16;
  view.shape = {5};
  view.strides = {1};
  view.data = reinterpret_cast<const std::byte*>(bits.data());
  view.extent_bytes = bits.size() * 2;
  const Result<Numbers> numbers = Measure(view, Level::kL1, {}, nullptr);
  ASSERT_TRUE(numbers.ok());
  EXPECT_EQ(numbers->norm, 2.236328125);
}

TEST(GradProbeMeasure, IntegersAreRefused) {
  TensorView view;
  view.dtype = DType::kInt64;
  view.shape = {0};
  view.strides = {1};
  EXPECT_FALSE(Measure(view, Level::kL1, {}, nullptr).ok());
}

}  // namespace
}  // namespace msprobe::grad_probe
