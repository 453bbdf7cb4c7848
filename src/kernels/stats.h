// Everything a dump records about one tensor, gathered in a single pass over its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "msprobe/dtype.h"

namespace msprobe::kernels {

struct TensorStats {
  uint64_t element_count = 0;
  // NaN in any element makes all four NaN, as the frameworks do. Of no elements: max, min, mean
  // NaN, norm 0. Complex: of the absolute values. Bool: of 0 and 1.
  double max = 0;
  double min = 0;
  double mean = 0;
  double norm = 0;  // sqrt(sum of squares)
  uint64_t nan_count = 0;
  uint64_t positive_inf_count = 0;
  uint64_t negative_inf_count = 0;
  uint64_t zero_count = 0;  // +0 and -0
};

// Sums of one run of elements. Partials of consecutive runs merge into the partial of both; merging
// in order of position with fixed run lengths gives the same bits whatever thread computed which
// run.
struct StatsPartial {
  uint64_t element_count = 0;
  double max = 0;
  double min = 0;
  double sum = 0;
  double square_sum = 0;
  uint64_t nan_count = 0;
  uint64_t positive_inf_count = 0;
  uint64_t negative_inf_count = 0;
  uint64_t zero_count = 0;
  // Only when asked for, see SmallValues.
  uint64_t subnormal_count = 0;
  double smallest_nonzero = std::numeric_limits<double>::infinity();
};

// The limits by which the same pass counts small elements.
struct SmallValues {
  // |x| below counts as zero (float32, float16 and bfloat16: compared in float32, so a bound of
  // less than 1e-45 counts nothing). 0: zeros alone; below 0: nothing.
  double zero_below = 0;
  // Subnormals (below the smallest normal number of the dtype, but not 0), and the smallest
  // magnitude that is not 0.
  bool magnitudes = false;
};

// `data` holds whole little-endian elements, row-major, at any alignment. Floating sums are kept in
// double; integer sums are exact up to 2^53 per element and in double beyond.
StatsPartial StatsOfBlock(DType dtype, std::span<const std::byte> data);
StatsPartial StatsOfBlock(DType dtype, std::span<const std::byte> data, const SmallValues& small);
void MergeStats(StatsPartial& into, const StatsPartial& next);
TensorStats FinishStats(const StatsPartial& total);

// The three above over all blocks of a tensor, in one thread.
TensorStats ComputeStats(DType dtype, std::span<const std::byte> data);

// The instruction set that the inner loops use on this processor: "avx512", "avx2", "sse4", "neon"
// or "plain".
std::string_view InstructionSet();

}  // namespace msprobe::kernels
