// Statistics against a naive double loop: every dtype, length, alignment and implementation.
#include <algorithm>

#include "src/kernels/stats.h"
#include "src/tensor/element_blocks.h"
#include "tests/unit/kernels/test_values.h"

namespace msprobe::kernels {
namespace {

struct ExpectedStats {
  TensorStats stats;
  double absolute_sum = 0;  // the scale rounding errors of the sum are measured against
};

ExpectedStats NaiveStats(DType dtype, const std::byte* data, size_t count) {
  ExpectedStats expected;
  TensorStats& stats = expected.stats;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  stats.element_count = count;
  double max = -std::numeric_limits<double>::infinity();
  double min = -max;
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::complex<double> element = ElementAt(dtype, data, i);
    const bool is_complex = GetDTypeInfo(dtype).kind == DTypeKind::kComplex;
    const double value = is_complex ? std::hypot(element.real(), element.imag()) : element.real();
    stats.nan_count += std::isnan(value) ? 1U : 0U;
    stats.positive_inf_count += value == std::numeric_limits<double>::infinity() ? 1U : 0U;
    stats.negative_inf_count += value == -std::numeric_limits<double>::infinity() ? 1U : 0U;
    stats.zero_count += value == 0 ? 1U : 0U;
    max = std::max(max, value);
    min = std::min(min, value);
    sum += value;
    squares += value * value;
    expected.absolute_sum += std::fabs(value);
  }
  const bool none = count == 0 || stats.nan_count != 0;
  stats.max = none ? kNan : max;
  stats.min = none ? kNan : min;
  stats.mean = none ? kNan : sum / static_cast<double>(count);
  stats.norm = count == 0 ? 0 : (stats.nan_count != 0 ? kNan : std::sqrt(squares));
  return expected;
}

class StatsProperty : public EveryTable {};

void ExpectAgrees(DType dtype, size_t count, size_t offset, Mix mix) {
  const std::vector<std::byte> bytes =
      MakeElements(dtype, count, offset, mix, static_cast<uint32_t>(count * 16 + offset));
  const std::byte* data = bytes.data() + offset;
  const TensorStats actual = ComputeStats(dtype, {data, count * DTypeSize(dtype)});
  const auto [stats, absolute_sum] = NaiveStats(dtype, data, count);
  SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " x" << count << " at " << offset);
  EXPECT_EQ(actual.element_count, stats.element_count);
  EXPECT_EQ(actual.nan_count, stats.nan_count);
  EXPECT_EQ(actual.positive_inf_count, stats.positive_inf_count);
  EXPECT_EQ(actual.negative_inf_count, stats.negative_inf_count);
  EXPECT_EQ(actual.zero_count, stats.zero_count);
  // The C library's magnitudes of complex elements may be off by their last digit.
  const bool is_complex = GetDTypeInfo(dtype).kind == DTypeKind::kComplex;
  EXPECT_TRUE(Near(actual.max, stats.max, is_complex ? stats.max : 0, 0x1p-52));
  EXPECT_TRUE(Near(actual.min, stats.min, is_complex ? stats.min : 0, 0x1p-52));
  EXPECT_TRUE(Near(actual.mean, stats.mean, absolute_sum));
  EXPECT_TRUE(Near(actual.norm, stats.norm, stats.norm));
}

TEST_P(StatsProperty, AgreesWithANaiveLoopForEveryDTypeAndLength) {
  for (const DType dtype : kAllDTypes) {
    for (size_t count = 0; count <= 257; ++count) {
      ExpectAgrees(dtype, count, 0, Mix::kOrdinary);
      ExpectAgrees(dtype, count, 0, Mix::kSpecial);
    }
  }
}

TEST_P(StatsProperty, AgreesWithANaiveLoopAtEveryAlignment) {
  for (const DType dtype : kAllDTypes) {
    for (size_t offset = 0; offset <= 15; ++offset) {
      for (const size_t count : {1U, 15U, 16U, 33U, 100U, 1500U}) {
        ExpectAgrees(dtype, count, offset, Mix::kOrdinary);
        ExpectAgrees(dtype, count, offset, Mix::kSpecial);
      }
    }
  }
}

TEST_P(StatsProperty, GivesTheSameBitsAsThePlainImplementation) {
  for (const DType dtype : kAllDTypes) {
    for (const Mix mix : {Mix::kOrdinary, Mix::kSpecial}) {
      const std::vector<std::byte> bytes = MakeElements(dtype, 5001, 3, mix, 7);
      const std::span<const std::byte> data = std::span(bytes).subspan(3);
      const StatsPartial actual = StatsOfBlock(dtype, data);
      internal::ForceTableForTesting(&internal::PlainTable());
      const StatsPartial plain = StatsOfBlock(dtype, data);
      internal::ForceTableForTesting(GetParam());
      EXPECT_EQ(0, std::memcmp(&actual, &plain, sizeof(actual))) << DTypeName(dtype);
    }
  }
}

TEST_P(StatsProperty, CutsLongTensorsIntoBlocksThatMergeInOrder) {
  const size_t count = 2 * tensor::kSumBlockElements + 777;
  const std::vector<std::byte> bytes = MakeElements(DType::kFloat32, count, 0, Mix::kOrdinary, 11);
  StatsPartial total;
  for (size_t first = 0; first < count; first += tensor::kSumBlockElements) {
    const size_t size = std::min(tensor::kSumBlockElements, count - first);
    MergeStats(total, StatsOfBlock(DType::kFloat32, std::span(bytes).subspan(first * 4, size * 4)));
  }
  const TensorStats merged = FinishStats(total);
  const TensorStats whole = ComputeStats(DType::kFloat32, bytes);
  EXPECT_EQ(0, std::memcmp(&merged, &whole, sizeof(whole)));
  EXPECT_EQ(whole.element_count, count);
}

MSPROBE_FOR_EVERY_TABLE(StatsProperty);

}  // namespace
}  // namespace msprobe::kernels
