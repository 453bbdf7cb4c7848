// The six metrics of two tensors and the verdict made of them, with every special case of the
// table's cells.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "msprobe/tensor_view.h"

#include "src/analysis/compare/result.h"
#include "src/kernels/compare.h"

namespace msprobe::analysis {

struct RealMetrics {
  std::array<Metric, kMetricSlots> metrics;  // by RealMetric; the last two slots are unused
  std::string message;                       // empty when there is nothing to say
  Distance distance;
};

// All six cells the same text: "unsupported", "shape unmatched", "N/A".
RealMetrics UniformRealMetrics(std::string_view cell_text, std::string message);

// The checks that need no sums, in order: an empty tensor, two 0-d tensors (which get their metrics
// here), different shapes. nullopt: the sums over all elements decide.
std::optional<RealMetrics> RealMetricsWithoutSums(const TensorView& npu, const TensorView& bench);

// The sums over elements [first, first + count) of two tensors of equal shape, block by block;
// memory is one block per side.
kernels::ComparePartial SumsOfRange(const TensorView& npu, const TensorView& bench, int64_t first,
                                    int64_t count);

// Cells of two tensors of equal shape, at least one axis and one element, from the sums over all
// their elements.
RealMetrics RealMetricsFromSums(const kernels::ComparePartial& sums, const TensorView& npu,
                                const TensorView& bench);

// All of the above in one thread.
RealMetrics ComputeRealMetrics(const TensorView& npu, const TensorView& bench);

// "Accuracy Reached or Not".
Verdict RealVerdict(const std::array<Metric, kMetricSlots>& metrics);

}  // namespace msprobe::analysis
