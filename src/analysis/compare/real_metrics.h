// The six metrics of two tensors and the verdict made of them, with every special case of the table's cells.
#pragma once

#include <array>
#include <string>

#include "msprobe/tensor_view.h"
#include "src/analysis/compare/result.h"
#include "src/kernels/compare.h"

namespace msprobe::analysis {

struct RealMetrics {
  std::array<Metric, kMetricSlots> metrics;   // by RealMetric; the last two slots are unused
  std::string message;                        // empty when there is nothing to say
  Distance distance;
};

// All six cells the same text: "unsupported", "shape unmatched", "N/A".
RealMetrics UniformRealMetrics(std::string_view cell_text, std::string message);

// Cells of two tensors of equal shape and at least one element, from the sums over their elements (0-d tensors: of one
// element). `same_dtype`: the dtypes agree after bfloat16 has been widened to float32.
RealMetrics RealMetricsFromSums(const kernels::ComparePartial& sums, bool same_dtype);

// The whole chain of checks (empty, 0-d, shape, non-finite positions, dtype) and the sums, in one thread, block by block.
RealMetrics ComputeRealMetrics(const TensorView& npu, const TensorView& bench);

// "Accuracy Reached or Not".
Verdict RealVerdict(const std::array<Metric, kMetricSlots>& metrics);

}  // namespace msprobe::analysis
