// A device's result of an operator against that of the CPU in at least float32.
#pragma once

#include <cstdint>
#include <optional>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::perturb {

struct CpuAgreement {
  bool consistent = true;
  // Not computed where the CPU's result holds NaN or infinities: nothing can be said then.
  std::optional<double> absolute_error;  // max |a - g| where |a| < 1
  std::optional<double> relative_error;  // max |a - g| / |g| where |a| >= 1
  std::optional<double> error_balance;   // mean of (a - g) / max(|g|, 1), signed
  uint64_t born_count = 0;               // NaN or infinite on the device alone
};

// The largest error of an operator of this dtype that is accepted: its unit roundoff for the 16-bit
// ones, 2^-14 for all others.
double LargestErrorAllowed(DType dtype);

// Inconsistent where an error exceeds 2^-11 (float16), 2^-8 (bfloat16) or 2^-14 (others), by the
// dtype of `actual`, or the balance 1e-4. By default a bias of either sign counts, and any NaN or
// infinity of the device alone; with `compat` only a positive bias, and such elements count as 1.
Result<CpuAgreement> CompareWithCpu(const TensorView& actual, const TensorView& golden,
                                    bool compat);

}  // namespace msprobe::perturb
