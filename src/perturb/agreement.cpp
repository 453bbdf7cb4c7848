#include "src/perturb/agreement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "src/kernels/compare.h"
#include "src/kernels/element_pairs.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_limits.h"
#include "src/tensor/tensor_buffer.h"

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
  kernels::ForEachRun<double>(actual, golden, [&](Run a, Run g, size_t) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(g[i])) return golden_finite = false;
      double value = a[i];
      if (!std::isfinite(value)) {
        ++result.new_nonfinite_count;
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
                      (compat || result.new_nonfinite_count == 0);
  return result;
}

namespace {

constexpr double kEpsilon = tensor::FormatOf(DType::kFloat32).epsilon();
constexpr double kLargeFrom = 1;
constexpr uint64_t kFewElements = 100;
constexpr double kMostZerosApart = 0.1;

// The largest finite number of a floating dtype of the device.
double LargestOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return tensor::FormatOf(dtype).largest;
    case DType::kBFloat16:
    case DType::kFloat32:
      return static_cast<double>(std::numeric_limits<float>::max());
    default:
      return std::numeric_limits<double>::max();
  }
}

void SetLimits(DType dtype, OperatorAgreement& agreement) {
  agreement.error_limit = LargestErrorAllowed(dtype);
  const bool narrow = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  agreement.error_balance_limit = narrow ? 2 * agreement.error_limit : agreement.error_limit;
}

// 64-bit integers do not fit into doubles: bytes, where the dtype is the same.
bool AreEqual(const TensorView& device, const TensorView& cpu) {
  bool equal = true;
  if (device.dtype == cpu.dtype) {
    std::vector<std::byte> scratch[2];
    using Bytes = std::span<const std::byte>;
    kernels::ForEachByteRun({device, scratch[0]}, {cpu, scratch[1]}, 0,
                            static_cast<size_t>(device.element_count()), tensor::kCopyBlockElements,
                            [&](Bytes d, Bytes c, size_t) {
                              return equal = std::memcmp(d.data(), c.data(), d.size()) == 0;
                            });
    return equal;
  }
  kernels::ForEachRun<double>(device, cpu,
                              [&](std::span<const double> d, std::span<const double> c, size_t) {
                                return equal = std::equal(d.begin(), d.end(), c.begin());
                              });
  return equal;
}

OperatorAgreement ByZeros(const TensorView& device, const TensorView& cpu,
                          OperatorAgreement agreement) {
  uint64_t zeros[2] = {};
  kernels::ForEachRun<double>(
      device, cpu, [&](std::span<const double> d, std::span<const double> c, size_t) {
        zeros[0] += static_cast<uint64_t>(std::count(d.begin(), d.end(), 0.0));
        zeros[1] += static_cast<uint64_t>(std::count(c.begin(), c.end(), 0.0));
      });
  const auto count = static_cast<uint64_t>(device.element_count());
  const uint64_t apart = std::max(zeros[0], zeros[1]) - std::min(zeros[0], zeros[1]);
  agreement.reason = AgreementReason::kZeros;
  agreement.passed = count < kFewElements ||
                     static_cast<double>(apart) < kMostZerosApart * static_cast<double>(count);
  return agreement;
}

OperatorAgreement ByErrors(const TensorView& device, const TensorView& cpu,
                           OperatorAgreement agreement) {
  const double largest = LargestOf(device.dtype);
  bool cpu_finite = true;
  bool device_finite = true;
  double balance = 0;
  const auto raise = [](double error, uint64_t at, double& most, std::optional<uint64_t>& index) {
    if (!index || error > most) {
      most = error;
      index = at;
    }
  };
  kernels::ForEachRun<double>(
      device, cpu, [&](std::span<const double> d, std::span<const double> c, size_t first) {
        for (size_t i = 0; i < d.size(); ++i) {
          cpu_finite = cpu_finite && std::abs(c[i]) <= largest;
          device_finite = device_finite && std::isfinite(d[i]);
          const double apart = d[i] - c[i];
          const double size = std::abs(c[i]);
          if (size < kLargeFrom) {
            balance += apart;
            continue;
          }
          const double scale = size + kEpsilon;
          balance += apart / scale;
          raise(std::abs(apart), first + i, agreement.max_absolute_error,
                agreement.max_absolute_index);
          raise(std::abs(apart) / scale, first + i, agreement.max_relative_error,
                agreement.max_relative_index);
        }
      });
  if (!cpu_finite || !device_finite) {
    OperatorAgreement without;
    SetLimits(device.dtype, without);
    without.reason =
        cpu_finite ? AgreementReason::kDeviceNotFinite : AgreementReason::kCpuNotFinite;
    without.passed = !cpu_finite;
    return without;
  }
  agreement.reason = AgreementReason::kMeasured;
  agreement.error_balance = balance / static_cast<double>(device.element_count());
  agreement.passed = std::abs(agreement.error_balance) <= agreement.error_balance_limit &&
                     agreement.max_absolute_error <= agreement.error_limit &&
                     agreement.max_relative_error <= agreement.error_limit;
  return agreement;
}

}  // namespace

Result<OperatorAgreement> CompareOperator(const TensorView& device, const TensorView& cpu,
                                          bool counts_zeros) {
  const DTypeKind kind = GetDTypeInfo(device.dtype).kind;
  if (kind == DTypeKind::kComplex && GetDTypeInfo(cpu.dtype).kind == DTypeKind::kComplex) {
    std::vector<std::byte> parts[2];
    return CompareOperator(tensor::AsReals(device, parts[0]), tensor::AsReals(cpu, parts[1]),
                           counts_zeros);
  }
  OperatorAgreement agreement;
  SetLimits(device.dtype, agreement);
  if (device.element_count() != cpu.element_count()) {
    agreement.reason = AgreementReason::kShapes;
    agreement.passed = false;
    return agreement;
  }
  if (device.element_count() == 0) {
    return agreement;
  }
  if (counts_zeros) {
    return ByZeros(device, cpu, agreement);
  }
  if (kind != DTypeKind::kFloat) {
    agreement.passed = AreEqual(device, cpu);
    return agreement;
  }
  return ByErrors(device, cpu, agreement);
}

Result<Distance> MeasureDistance(const TensorView& actual, const TensorView& reference) {
  if (actual.element_count() != reference.element_count()) {
    return MismatchError("tensors of " + ShapeText(actual.shape) + " and " +
                         ShapeText(reference.shape) + " have no distance");
  }
  std::vector<std::byte> scratch[2];
  kernels::ComparePartial sums;
  using Bytes = std::span<const std::byte>;
  kernels::ForEachByteRun(
      {actual, scratch[0]}, {reference, scratch[1]}, 0, static_cast<size_t>(actual.element_count()),
      tensor::kSumBlockElements, [&](Bytes a, Bytes r, size_t) {
        kernels::MergeCompare(
            sums, kernels::CompareBlock(actual.dtype, a.data(), reference.dtype, r.data(),
                                        a.size() / DTypeSize(actual.dtype)));
      });
  Distance distance;
  const double error = std::sqrt(sums.difference_square_sum);
  const double norm = std::sqrt(sums.bench_square_sum);
  distance.relative_error = error == 0 ? 0
                            : norm > 0 ? error / norm
                                       : std::numeric_limits<double>::infinity();
  distance.largest_error = sums.max_abs_error;
  distance.different_count = sums.different_count;
  distance.nonfinite_count = sums.nonfinite_mismatch_count + sums.opposite_inf_count;
  return distance;
}

}  // namespace msprobe::perturb
