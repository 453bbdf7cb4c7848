// How far two saved arrays are apart.
#pragma once

#include <cstdint>
#include <optional>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::analysis::rl {

struct PairMetrics {
  uint64_t element_count = 0;  // of the common part
  bool shapes_differ = false;  // only the common prefix of every axis was compared
  double same_percent = 0;
  std::optional<uint64_t> first_mismatch;  // flat index in the common part
  double max_abs = 0;                      // NaN where --compat lets it become so
  double max_relative = 0;
  double within_thousandth_percent = 0;  // |a-b| <= 0.001 max(|a|, |b|)
  double within_hundredth_percent = 0;
  double mean_abs = 0;           // over elements finite on both sides
  std::optional<double> cosine;  // nothing where one side is zero
  uint64_t first_nan_count = 0;
  uint64_t second_nan_count = 0;
  uint64_t nan_mismatch_count = 0;  // NaN on one side only
};

// NaN equals NaN, and a NaN on one side only counts as different without spoiling the maxima; with
// `compat` NaN equals nothing and is the largest error, as in the Python tool. Floats of up to 32
// bits are subtracted as float32, everything else as float64. An error when the numbers of axes
// differ or there is nothing to compare.
Result<PairMetrics> ComparePair(const TensorView& first, const TensorView& second, bool compat);

}  // namespace msprobe::analysis::rl
