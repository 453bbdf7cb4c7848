// Figures of one output of floats: the device's values against those of the CPU, which computed in
// a wider dtype. Which metric belongs to which standard:
// config/accuracy_standards.json and standards.h.
#pragma once

#include <cstdint>

#include "msprobe/tensor_view.h"

#include "src/analysis/accuracy/common/metric_number.h"
#include "src/analysis/accuracy/common/standards.h"

namespace msprobe::analysis::accuracy {

struct FloatMetrics {
  uint64_t count = 0;
  double largest_device = 0;  // magnitudes; NaN where there is one
  double largest_bench = 0;
  double cosine = 0;  // NaN where a value is not finite
  MetricNumber max_abs;
  // Shares of elements whose relative error is below 1/100, 1/1000, 1/10000.
  double hundredth = 0;
  double thousandth = 0;
  double ten_thousandth = 0;
  // Those of the standard; the others have no value.
  MetricNumber error_rate;
  MetricNumber error_balance;
  MetricNumber rmse;
  MetricNumber small_value;
  MetricNumber max_relative;
  MetricNumber mean_relative;
  MetricNumber inf_nan;
  MetricNumber relative;
  MetricNumber absolute;
  MetricNumber ulp_max;
  MetricNumber ulp_mean;
  MetricNumber ulp_share;
  // Values that are inf or NaN stand at the same places, and are the same there; there are some.
  bool has_equal_non_finite = false;
};

struct FloatMetricsOptions {
  Standard standard = Standard::kBenchmark;
  bool with_standard = true;  // false: only what every output has
  // Leaves out elements that are the same inf or NaN on both sides.
  bool finite_part = false;
};

// Both have the same shape, not empty, and float dtypes. Passes over the views twice, in blocks;
// the result does not depend on anything but the values.
FloatMetrics MeasureFloats(const TensorView& device, const TensorView& bench, const Limits& limits,
                           const FloatMetricsOptions& options);

}  // namespace msprobe::analysis::accuracy
