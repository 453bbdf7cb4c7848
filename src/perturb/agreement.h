// How far two tensors are apart, as one number.
#pragma once

#include <cstdint>
#include <optional>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::perturb {

// A device's result of an operator against that of the CPU in at least float32.

struct CpuAgreement {
  bool consistent = true;
  // Not computed where the CPU's result holds NaN or infinities: nothing can be said then.
  std::optional<double> absolute_error;  // max |a - g| where |a| < 1
  std::optional<double> relative_error;  // max |a - g| / |g| where |a| >= 1
  std::optional<double> error_balance;   // mean of (a - g) / max(|g|, 1), signed
  uint64_t new_nonfinite_count = 0;      // NaN or infinite on the device alone
};

// The largest error of an operator of this dtype that is accepted: its unit roundoff for the 16-bit
// ones, 2^-14 for all others.
double LargestErrorAllowed(DType dtype);

// Inconsistent where an error exceeds 2^-11 (float16), 2^-8 (bfloat16) or 2^-14 (others), by the
// dtype of `actual`, or the balance 1e-4. By default a bias of either sign counts, and any NaN or
// infinity of the device alone; with `compat` only a positive bias, and such elements count as 1.
Result<CpuAgreement> CompareWithCpu(const TensorView& actual, const TensorView& golden,
                                    bool compat);

// One output of an operator on a device against the same operator on the CPU in higher precision:
// what online_dispatch asks of every call.

enum class AgreementReason : uint8_t {
  kMeasured,         // floating: by the errors below
  kExact,            // not a floating dtype, or no elements: equal or not
  kShapes,           // other numbers of elements
  kCpuNotFinite,     // the CPU's result holds NaN, infinities or what the device's dtype cannot: it
                     // passes, as nothing can be said
  kDeviceNotFinite,  // the device's alone does: it fails
  kZeros,            // dropout: by the number of zeros
};

// d = device - cpu, b = cpu; the limits go by the dtype of the device's result.
struct OperatorAgreement {
  bool passed = true;
  AgreementReason reason = AgreementReason::kExact;
  double error_balance = 0;  // mean of (d if |b| < 1, else d / (|b| + 2^-23)), signed
  // Largest |d| and |d| / (|b| + 2^-23) of elements with |b| >= 1, and where the first such element
  // is (row-major); 0 and nowhere when there is none.
  double max_absolute_error = 0;
  double max_relative_error = 0;
  std::optional<uint64_t> max_absolute_index;
  std::optional<uint64_t> max_relative_index;
  double error_balance_limit = 0;  // float16 2^-10, bfloat16 2^-7, others 2^-14
  double error_limit = 0;          // float16 2^-11, bfloat16 2^-8, others 2^-14
};

// Fails where |error balance| or one of the errors exceeds its limit; by exact equality where
// `device` is not floating. `counts_zeros`: random zeros, whose number alone must agree, within a
// tenth of at least 100 elements. Complex elements count as two numbers each.
Result<OperatorAgreement> CompareOperator(const TensorView& device, const TensorView& cpu,
                                          bool counts_zeros);

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
