// Two results of one operator, of the input as it is and of the changed one, by the ratio of their
// elements.
#pragma once

#include <cstdint>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::perturb {

struct RatioRules {
  bool backward =
      false;  // values below 1e-3 count as 1e-3; else below the root of the dtype's noise
  double threshold = 1.0002;  // elements apart by more are counted
  // As the Python tool: of a tensor of 32 MiB and more, cut into chunks, the last chunk alone gives
  // the ratio, and a NaN hides changes of sign in its chunk.
  bool compat = false;
  // The rule of the Python tool's MindSpore part: quotients o / p where |p| exceeds the bound and
  // p / o where |o| does, else 1, with their signs; those of float64 rounded to float32. A negative
  // o / p is a change of sign, whose ratio is kNegativeQuotient. Quotients that are NaN or infinite
  // do not count; with `compat` an infinite one makes the largest of its kind 1.
  bool quotients = false;
};

inline constexpr double kNegativeQuotient = 8;

struct RatioResult {
  // max(max r, 1 / min r) over r = max(|o|, bound) / max(|p|, bound), in the arithmetic of the
  // changed result's dtype (integers: float32); NaN counts as 1; infinite where p alone is.
  double ratio = 1;
  bool sign_changes = false;  // some o * p < -bound^2; then nothing else says much
  // Set for results that are not consistent; for others 1 and 0.
  double mean_ratio = 1;              // of max(r, 1/r), over finite ones
  uint64_t exceeding_count = 0;       // elements beyond the threshold
  uint64_t worst_index = 0;           // of the element that gives `ratio`, row-major
  uint64_t new_nonfinite_count = 0;   // NaN or infinite in the changed result alone
  uint64_t lost_nonfinite_count = 0;  // NaN or infinite in the original result alone

  bool consistent(double threshold) const {
    return !sign_changes && ratio <= threshold && ratio >= 1 / threshold;
  }
};

// By the dtype of the original result: float16 1.002, bfloat16 1.004, others 1.0002. With
// no_change the results must be the same: 1.
double DefaultThreshold(DType original);

// Both have the same number of elements.
Result<RatioResult> CompareRatios(const TensorView& original, const TensorView& perturbed,
                                  const RatioRules& rules);

}  // namespace msprobe::perturb
