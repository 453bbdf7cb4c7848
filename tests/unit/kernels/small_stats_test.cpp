// Zeros below a bound, subnormals and the smallest magnitude against a naive loop: every dtype,
// length and implementation.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "src/kernels/stats.h"
#include "src/tensor/element_blocks.h"
#include "tests/unit/kernels/test_values.h"

namespace msprobe::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double SmallestNormalOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128:
      return 0x1p-1022;
    case DType::kFloat32:
    case DType::kBFloat16:
    case DType::kComplex64:
      return 0x1p-126;
    case DType::kFloat16:
    case DType::kFloat8E5M2:
      return 0x1p-14;
    case DType::kFloat8E4M3FN:
      return 0x1p-6;
    case DType::kFloat8E4M3FNUZ:
      return 0x1p-7;
    case DType::kFloat8E5M2FNUZ:
      return 0x1p-15;
    default:
      return 0;
  }
}

struct Small {
  uint64_t zeros = 0;
  uint64_t subnormals = 0;
  double smallest = kInfinity;
};

Small NaiveSmall(DType dtype, const std::byte* data, size_t count, double bound) {
  Small small;
  const bool in_float =
      dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  const double compared = in_float ? static_cast<double>(static_cast<float>(bound)) : bound;
  for (size_t i = 0; i < count; ++i) {
    const std::complex<double> element = ElementAt(dtype, data, i);
    const double magnitude = std::hypot(element.real(), element.imag());
    small.zeros += magnitude < compared ? 1U : 0U;
    small.subnormals += magnitude != 0 && magnitude < SmallestNormalOf(dtype) ? 1U : 0U;
    small.smallest = magnitude != 0 ? std::min(small.smallest, magnitude) : small.smallest;
  }
  return small;
}

class SmallStats : public EveryTable {};

void ExpectAgrees(DType dtype, size_t count, Mix mix, double bound) {
  const std::vector<std::byte> bytes =
      MakeElements(dtype, count, 0, mix, static_cast<uint32_t>(count + 1));
  const std::span<const std::byte> data(bytes.data(), count * DTypeSize(dtype));
  SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " x" << count << " below " << bound);
  const Small expected = NaiveSmall(dtype, bytes.data(), count, bound);
  const StatsPartial near = StatsOfBlock(dtype, data, {.zero_below = bound});
  const StatsPartial all = StatsOfBlock(dtype, data, {.zero_below = bound, .magnitudes = true});
  const StatsPartial plain = StatsOfBlock(dtype, data);
  EXPECT_EQ(near.zero_count, expected.zeros);
  EXPECT_EQ(all.zero_count, expected.zeros);
  EXPECT_EQ(all.subnormal_count, expected.subnormals);
  EXPECT_DOUBLE_EQ(all.smallest_nonzero, expected.smallest);
  // What every pass tells is the same to the bit.
  EXPECT_EQ(std::bit_cast<uint64_t>(all.sum), std::bit_cast<uint64_t>(plain.sum));
  EXPECT_EQ(std::bit_cast<uint64_t>(near.square_sum), std::bit_cast<uint64_t>(plain.square_sum));
  EXPECT_EQ(all.max, plain.max);
  EXPECT_EQ(all.min, plain.min);
  EXPECT_EQ(all.nan_count, plain.nan_count);
}

TEST_P(SmallStats, AgreesWithANaiveLoopForEveryDTypeAndLength) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t count : {0U, 1U, 15U, 16U, 17U, 64U, 257U, 5000U}) {
      for (const double bound : {1e-8, 0.5, 1e-30}) {
        ExpectAgrees(dtype, count, Mix::kOrdinary, bound);
        ExpectAgrees(dtype, count, Mix::kSpecial, bound);
      }
    }
  }
}

TEST_P(SmallStats, FindsSubnormalsOfEitherSignAndLeavesZerosOut) {
  std::vector<float> values(40, 1.0F);
  values[3] = -1e-45F;
  values[20] = 1e-40F;
  values[21] = -0.0F;
  values[39] = 0.0F;
  const StatsPartial stats = StatsOfBlock(DType::kFloat32, BytesOf(values), {.magnitudes = true});
  EXPECT_EQ(stats.subnormal_count, 2U);
  EXPECT_EQ(stats.zero_count, 2U);
  EXPECT_EQ(stats.smallest_nonzero, static_cast<double>(1e-45F));
}

TEST_P(SmallStats, CountsNothingBelowANegativeBound) {
  const std::vector<float> values(20, 0.0F);
  EXPECT_EQ(StatsOfBlock(DType::kFloat32, BytesOf(values), {.zero_below = -1}).zero_count, 0U);
  EXPECT_EQ(StatsOfBlock(DType::kFloat32, BytesOf(values), {}).zero_count, 20U);
}

TEST_P(SmallStats, MergesRunsOfALargeTensor) {
  std::vector<float> values(3 * tensor::kSumBlockElements + 5, 2.0F);
  values.front() = 1e-9F;
  values.back() = 1e-39F;
  const StatsPartial stats =
      StatsOfBlock(DType::kFloat32, BytesOf(values), {.zero_below = 1e-8, .magnitudes = true});
  EXPECT_EQ(stats.zero_count, 2U);
  EXPECT_EQ(stats.subnormal_count, 1U);
  EXPECT_EQ(stats.smallest_nonzero, static_cast<double>(1e-39F));
}

MSPROBE_FOR_EVERY_TABLE(SmallStats);

}  // namespace
}  // namespace msprobe::kernels
