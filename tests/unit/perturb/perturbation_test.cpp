#include "src/perturb/perturbation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "src/tensor/tensor_buffer.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::perturb {
namespace {

using test_support::ViewOf;

std::vector<float> Changed(const TensorView& input, Mode mode, bool expected, uint32_t ulps = 1) {
  std::vector<float> out(static_cast<size_t>(input.element_count()));
  const Result<bool> changed = Perturb(input, mode, std::as_writable_bytes(std::span(out)), ulps);
  EXPECT_TRUE(changed.ok());
  EXPECT_EQ(*changed, expected);
  return out;
}

TEST(Perturbation, NoiseIsAddedToWhatIsLargeEnough) {
  const std::vector<float> values = {1e-3F, 5e-5F, 0, 0.125F};
  EXPECT_EQ(Changed(ViewOf(values, {4}), Mode::kAddNoise, true),
            (std::vector<float>{1e-3F + 1e-8F, 5e-5F, 0, 0.125F + 1e-8F}));
}

TEST(Perturbation, NoiseOfTheDtypeVanishesInLargeValuesButUlpsDoNot) {
  const std::vector<float> values = {1.0F, -2.0F, 0, std::numeric_limits<float>::infinity()};
  EXPECT_EQ(Changed(ViewOf(values, {4}), Mode::kAddNoise, true), values);
  EXPECT_EQ(Changed(ViewOf(values, {4}), Mode::kUlpNoise, true, 2),
            (std::vector<float>{1.0F + 0x1p-22F, -2.0F - 0x1p-21F, 0, values[3]}));
}

TEST(Perturbation, UlpsNeverMakeInfinities) {
  const std::vector<float> values = {std::numeric_limits<float>::max()};
  EXPECT_EQ(Changed(ViewOf(values, {1}), Mode::kUlpNoise, false, 5), values);
}

TEST(Perturbation, RandomNoiseMovesByOneUnitAtMostTheSameWayForTheSameSeed) {
  std::vector<float> values(30000, -1.5F);
  values[0] = 0;
  values[1] = std::numeric_limits<float>::infinity();
  values[2] = std::numeric_limits<float>::max();
  const std::vector<float> moved = Changed(ViewOf(values, {30000}), Mode::kRandomNoise, true, 7);
  size_t counts[3] = {};
  for (size_t i = 3; i < values.size(); ++i) {
    const int32_t units = std::bit_cast<int32_t>(moved[i]) - std::bit_cast<int32_t>(values[i]);
    ASSERT_TRUE(units >= -1 && units <= 1);
    ++counts[units + 1];
  }
  for (const size_t count : counts) EXPECT_NEAR(static_cast<double>(count), 10000, 400);
  EXPECT_TRUE(std::equal(moved.begin(), moved.begin() + 3, values.begin()));
  EXPECT_EQ(Changed(ViewOf(values, {30000}), Mode::kRandomNoise, true, 7), moved);
  EXPECT_NE(Changed(ViewOf(values, {30000}), Mode::kRandomNoise, true, 8), moved);
}

TEST(Perturbation, RowsAreSwappedInStridedTensorsToo) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  TensorView transposed = ViewOf(values, {3, 2});
  transposed.strides = {1, 3};  // 0 3 / 1 4 / 2 5
  EXPECT_EQ(Changed(transposed, Mode::kChangeValue, true), (std::vector<float>{5, 3, 1, 4, 2, 0}));
}

TEST(Perturbation, NothingIsChangedInEmptyTensorsAndIntegers) {
  const std::vector<float> none;
  for (const Mode mode : {Mode::kAddNoise, Mode::kBitNoise, Mode::kChangeValue, Mode::kUlpNoise}) {
    EXPECT_TRUE(Changed(ViewOf(none, {0, 3}), mode, false).empty());
  }
  const std::vector<int32_t> integers = {1, 2};
  std::vector<int32_t> out(2);
  const Result<bool> changed = Perturb(ViewOf(integers, {2}, DType::kInt32), Mode::kBitNoise,
                                       std::as_writable_bytes(std::span(out)));
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
  EXPECT_EQ(out, integers);
}

TEST(Perturbation, AnotherSizeIsRefused) {
  const std::vector<float> values = {1};
  std::vector<float> out(2);
  EXPECT_FALSE(
      Perturb(ViewOf(values, {1}), Mode::kNoChange, std::as_writable_bytes(std::span(out))).ok());
}

}  // namespace
}  // namespace msprobe::perturb
