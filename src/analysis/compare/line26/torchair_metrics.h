// The metrics of torchair's report, of two tensors of as many elements.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "msprobe/tensor_view.h"

namespace msprobe::analysis::compare {

inline constexpr size_t kTorchairMetricCount = 7;
inline constexpr std::array<std::string_view, kTorchairMetricCount> kTorchairMetrics = {
    "cosine_similarity",   "max_relative_error", "mean_relative_error",        "max_absolute_error",
    "mean_absolute_error", "kl_divergence",      "relative_euclidean_distance"};

struct TorchairMetrics {
  std::array<double, kTorchairMetricCount> values{};
  bool golden_finite = true;  // else there are no values
  bool mine_finite = true;
};

// torchair_compare.h has the formulas. Both are plain and have at least one element.
TorchairMetrics MeasureTorchair(const TensorView& golden, const TensorView& mine);

}  // namespace msprobe::analysis::compare
