// From sums over a pair of parameters to the figures of the results.
#pragma once

#include <cstdint>
#include <optional>

#include "src/analysis/ckpt/extended_float.h"
#include "src/kernels/compare.h"

namespace msprobe::analysis::ckpt {

// Sums of squares and products beyond the range of double.
struct WideSums {
  ExtendedFloat dot = 0;
  ExtendedFloat square_sum_a = 0;
  ExtendedFloat square_sum_b = 0;
  ExtendedFloat difference_square_sum = 0;
};

// Of a run of elements: as they are, or both sides taken as float32 first.
struct PairSums {
  // "npu" is the first checkpoint, "bench" the second. Pairs of which one side is not finite enter
  // the other side's sum of squares only.
  kernels::ComparePartial finite;
  uint64_t nan_count_a = 0;
  uint64_t nan_count_b = 0;
  uint64_t inf_count_a = 0;
  uint64_t inf_count_b = 0;
  uint64_t same_inf_count = 0;   // the same infinity on both sides
  uint64_t exceeding_count = 0;  // |a - b| > atol + rtol * |b|, or not finite on one side
  bool equal_bits = true;        // of the stored elements; false where the dtypes differ
  double sum_a = 0;              // of all elements, when asked for
  double sum_b = 0;
  // Set where a square of a finite element overflows or vanishes in double: stands for the sums of
  // squares and products in `finite`.
  std::optional<WideSums> wide;
};
void MergeSums(PairSums& into, const PairSums& next);

// Whether squares of finite elements may have overflowed or vanished in double: such a pair is
// walked again with WideSumsOfBlock.
bool LeavesDouble(const PairSums& sums);

// Whether the sums are so small that squares may have vanished in float32. Such a pair is walked
// again with FlushedStep, whose sums replace those of the first walk.
bool MayUnderflow(const PairSums& sums);
// Adds one pair of elements with every product rounded to float32 first.
void FlushedStep(float a, float b, kernels::ComparePartial& sums);

struct PairMetrics {
  // The Python tool's figures. nullopt: null in its file.
  std::optional<double> l2;
  std::optional<double> cosine;
  // Of our own, as IEEE 754 divides: infinity where only the divisor is zero.
  double norm_a = 0;
  double norm_b = 0;
  double norm_ratio = 0;   // a to b
  double relative_l2 = 0;  // l2 / norm_b; 0 when both sides are equal
  double rms_error = 0;    // l2 / sqrt(n)
};
PairMetrics ComputeMetrics(const PairSums& sums);
// The same as the Python tool's float32 arithmetic gives them: float32 results as doubles, infinite
// or zero where a sum of squares leaves float32.
PairMetrics ComputeFloat32Metrics(const PairSums& sums);

}  // namespace msprobe::analysis::ckpt
