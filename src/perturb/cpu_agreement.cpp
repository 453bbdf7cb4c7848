#include "src/perturb/cpu_agreement.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "src/perturb/element_pairs.h"
#include "src/tensor/float_limits.h"

namespace msprobe::perturb {
namespace {

constexpr double kMostBalance = 1e-4;
constexpr double kSmallBelow = 1;

}  // namespace

double LargestErrorAllowed(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? tensor::FormatOf(dtype).unit
                                                               : 0x1p-14;
}

Result<CpuAgreement> CompareWithCpu(const TensorView& actual, const TensorView& golden,
                                    bool compat) {
  if (actual.element_count() != golden.element_count()) {
    return MismatchError("the results of device and CPU have the same number of elements, not " +
                         ShapeText(actual.shape) + " and " + ShapeText(golden.shape));
  }
  CpuAgreement result;
  const auto count = static_cast<size_t>(actual.element_count());
  double absolute = 0;
  double relative = 0;
  double balance = 0;
  bool golden_finite = true;
  using Run = std::span<const double>;
  ForEachPair<double>(actual, golden, [&](Run a, Run g, size_t) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(g[i])) return golden_finite = false;
      double value = a[i];
      if (!std::isfinite(value)) {
        ++result.born_count;
        value = 1;
      }
      const double apart = value - g[i];
      const double size = std::abs(g[i]);
      if (std::abs(value) < kSmallBelow) {
        absolute = std::max(absolute, std::abs(apart));
      } else {
        relative = std::max(relative, std::abs(apart) / size);
      }
      balance += apart / std::max(size, kSmallBelow);
    }
    return true;
  });
  if (!golden_finite) return CpuAgreement();
  balance = count == 0 ? 0 : balance / static_cast<double>(count);
  result.absolute_error = absolute;
  result.relative_error = relative;
  result.error_balance = balance;
  const double most = LargestErrorAllowed(actual.dtype);
  const double bias = compat ? balance : std::abs(balance);
  result.consistent = absolute <= most && relative <= most && bias <= kMostBalance &&
                      (compat || result.born_count == 0);
  return result;
}

}  // namespace msprobe::perturb
