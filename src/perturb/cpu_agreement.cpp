#include "src/perturb/cpu_agreement.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::perturb {
namespace {

constexpr double kMostBalance = 1e-4;
constexpr double kSmallBelow = 1;

double MostError(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kBFloat16:
      return 0x1p-8;
    default:
      return 0x1p-14;
  }
}

}  // namespace

Result<CpuAgreement> CompareWithCpu(const TensorView& actual, const TensorView& golden,
                                    bool compat) {
  if (actual.element_count() != golden.element_count()) {
    return MismatchError("the results of device and CPU have the same number of elements, not " +
                         ShapeText(actual.shape) + " and " + ShapeText(golden.shape));
  }
  CpuAgreement result;
  std::vector<std::byte> scratch[2];
  tensor::BlockReader actuals(actual, scratch[0]);
  tensor::BlockReader goldens(golden, scratch[1]);
  std::vector<double> a(tensor::kCopyBlockElements);
  std::vector<double> g(tensor::kCopyBlockElements);
  const auto count = static_cast<size_t>(actual.element_count());
  double absolute = 0;
  double relative = 0;
  double balance = 0;
  for (size_t first = 0; first < count; first += tensor::kCopyBlockElements) {
    const size_t elements = std::min(tensor::kCopyBlockElements, count - first);
    kernels::WidenToDouble(actual.dtype, actuals.Read(first, elements), {a.data(), elements});
    kernels::WidenToDouble(golden.dtype, goldens.Read(first, elements), {g.data(), elements});
    for (size_t i = 0; i < elements; ++i) {
      if (!std::isfinite(g[i])) return CpuAgreement();
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
  }
  balance = count == 0 ? 0 : balance / static_cast<double>(count);
  result.absolute_error = absolute;
  result.relative_error = relative;
  result.error_balance = balance;
  const double most = MostError(actual.dtype);
  const double bias = compat ? balance : std::abs(balance);
  result.consistent = absolute <= most && relative <= most && bias <= kMostBalance &&
                      (compat || result.born_count == 0);
  return result;
}

}  // namespace msprobe::perturb
