// One output of an operator on a device against the same operator on the CPU in higher precision:
// what online_dispatch asks of every call.
#pragma once

#include <cstdint>
#include <optional>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::perturb {

enum class AgreementReason : uint8_t {
  kMeasured,         // floating: by the errors below
  kExact,            // no floating dtype, or nothing to measure: equal or not
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

}  // namespace msprobe::perturb
