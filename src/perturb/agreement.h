// How far two tensors are apart, as one number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::perturb {

// The elements of two tensors side by side.

inline void Widen(DType dtype, std::span<const std::byte> data, std::span<float> out) {
  kernels::WidenToFloat(dtype, data, out);
}
inline void Widen(DType dtype, std::span<const std::byte> data, std::span<double> out) {
  kernels::WidenToDouble(dtype, data, out);
}

// Elements as Values: where they lie, if they are Values there, else widened into `copy`.
template <typename Value>
std::span<const Value> AsValues(DType dtype, std::span<const std::byte> data,
                                std::vector<Value>& copy) {
  constexpr DType kOwn = sizeof(Value) == sizeof(float) ? DType::kFloat32 : DType::kFloat64;
  const size_t elements = data.size() / DTypeSize(dtype);
  if (dtype == kOwn && reinterpret_cast<uintptr_t>(data.data()) % alignof(Value) == 0) {
    return {reinterpret_cast<const Value*>(data.data()), elements};
  }
  copy.resize(tensor::kCopyBlockElements);
  Widen(dtype, data, std::span(copy.data(), elements));
  return {copy.data(), elements};
}

// Calls use(left, right, first) for elements [begin, end) of both, a block at a time: two spans of
// as many Values (float or double), and the index of their first element. A use may return whether
// the walk goes on.
template <typename Value, typename Use>
void ForEachPair(const TensorView& left, const TensorView& right, size_t begin, size_t end,
                 const Use& use) {
  using Run = std::span<const Value>;
  std::vector<std::byte> scratch[2];
  tensor::BlockReader lefts(left, scratch[0]);
  tensor::BlockReader rights(right, scratch[1]);
  std::vector<Value> copies[2];
  for (size_t first = begin; first < end; first += tensor::kCopyBlockElements) {
    const size_t elements = std::min(tensor::kCopyBlockElements, end - first);
    const Run l = AsValues(left.dtype, lefts.Read(first, elements), copies[0]);
    const Run r = AsValues(right.dtype, rights.Read(first, elements), copies[1]);
    if constexpr (std::is_void_v<std::invoke_result_t<const Use&, Run, Run, size_t>>) {
      use(l, r, first);
    } else if (!use(l, r, first)) {
      return;
    }
  }
}

// The same for all elements, of which both have the same number.
template <typename Value, typename Use>
void ForEachPair(const TensorView& left, const TensorView& right, const Use& use) {
  ForEachPair<Value>(left, right, 0, static_cast<size_t>(left.element_count()), use);
}

// A device's result of an operator against that of the CPU in at least float32.

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

// One output of an operator on a device against the same operator on the CPU in higher precision:
// what online_dispatch asks of every call.

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
