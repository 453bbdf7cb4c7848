// How far two tensors are apart, as one number.
#pragma once

#include <cstdint>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::perturb {

struct Distance {
  // |a - r| / |r|, Euclidean norms of all elements, in double; infinite where r is zero and a is
  // not.
  double relative_error = 0;
  double largest_error = 0;  // max |a - r|
  uint64_t different_count = 0;
  uint64_t nonfinite_count = 0;  // NaN or infinite on one side alone: left out of the norms
};

// Both have the same number of elements; dtypes may differ. The sums are those of kernels/compare:
// the same for any layout.
Result<Distance> MeasureDistance(const TensorView& actual, const TensorView& reference);

}  // namespace msprobe::perturb
