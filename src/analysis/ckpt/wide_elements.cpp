#include "src/analysis/ckpt/wide_elements.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "src/kernels/convert.h"

namespace msprobe::analysis::ckpt {
namespace {

template <class Value>
Value LoadAs(const std::byte* element) {
  Value value;
  std::memcpy(&value, element, sizeof(value));
  return value;
}

// As the kernels: a bench of 0 is taken as the smallest step from 1.
double RelativeError(const WideElement& a, const WideElement& b) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  const WideElement divisor = b.magnitude() == 0 ? WideElement{kEpsilon, 0} : b;
  return static_cast<double>((a - b).magnitude() / divisor.magnitude());
}

void AddNotFinite(const WideElement& a, const WideElement& b, PairSums& sums) {
  const bool inf_a = !a.is_nan() && !a.is_finite();
  const bool inf_b = !b.is_nan() && !b.is_finite();
  sums.nan_count_a += a.is_nan() ? 1U : 0U;
  sums.nan_count_b += b.is_nan() ? 1U : 0U;
  sums.inf_count_a += inf_a ? 1U : 0U;
  sums.inf_count_b += inf_b ? 1U : 0U;
  sums.same_inf_count += inf_a && a == b ? 1U : 0U;
  if ((a.is_nan() && b.is_nan()) || (inf_a && inf_b)) {
    ++sums.finite.nonfinite_match_count;
    sums.finite.opposite_inf_count += inf_a && !(a == b) ? 1U : 0U;
  } else {
    ++sums.finite.nonfinite_mismatch_count;
  }
}

}  // namespace

WideElement LoadWide(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kInt64:
      return {static_cast<ExtendedFloat>(LoadAs<int64_t>(element)), 0};
    case DType::kUInt64:
      return {static_cast<ExtendedFloat>(LoadAs<uint64_t>(element)), 0};
    case DType::kComplex64:
      return {LoadAs<float>(element), LoadAs<float>(element + sizeof(float))};
    case DType::kComplex128:
      return {LoadAs<double>(element), LoadAs<double>(element + sizeof(double))};
    default: {
      double value = 0;
      kernels::WidenToDouble(dtype, {element, DTypeSize(dtype)}, {&value, 1});
      return {value, 0};
    }
  }
}

PairSums WideStepSums(const Box& box, const std::byte* stored_a, const std::byte* stored_b,
                      size_t count, const Tolerance& tolerance, bool means) {
  PairSums sums;
  kernels::ComparePartial& finite = sums.finite;
  WideSums wide;
  finite.element_count = count;
  for (size_t i = 0; i < count; ++i) {
    const WideElement a = LoadWide(box.a.dtype, stored_a + i * DTypeSize(box.a.dtype));
    const WideElement b = LoadWide(box.b.dtype, stored_b + i * DTypeSize(box.b.dtype));
    wide.square_sum_a += a.is_finite() ? a.square() : 0;
    wide.square_sum_b += b.is_finite() ? b.square() : 0;
    sums.sum_a += means ? static_cast<double>(a.real) : 0;
    sums.sum_b += means ? static_cast<double>(b.real) : 0;
    if (!a.is_finite() || !b.is_finite()) {
      AddNotFinite(a, b, sums);
      const bool agrees = a == b || (a.is_nan() && b.is_nan());
      sums.exceeding_count += tolerance.given() && !agrees ? 1U : 0U;
      continue;
    }
    const auto error = static_cast<double>((a - b).magnitude());
    const double relative = RelativeError(a, b);
    wide.dot += a.real * b.real + a.imaginary * b.imaginary;
    wide.difference_square_sum += (a - b).square();
    finite.max_abs_error = std::max(finite.max_abs_error, error);
    finite.max_relative_error = std::max(finite.max_relative_error, relative);
    finite.below_one_thousandth_count += relative < 0.001 ? 1U : 0U;
    finite.below_five_thousandths_count += relative < 0.005 ? 1U : 0U;
    finite.different_count += a == b ? 0U : 1U;
    const double allowed =
        tolerance.absolute + tolerance.relative * static_cast<double>(b.magnitude());
    sums.exceeding_count += tolerance.given() && error > allowed ? 1U : 0U;
  }
  finite.dot = static_cast<double>(wide.dot);
  finite.npu_square_sum = static_cast<double>(wide.square_sum_a);
  finite.bench_square_sum = static_cast<double>(wide.square_sum_b);
  finite.difference_square_sum = static_cast<double>(wide.difference_square_sum);
  return sums;
}

}  // namespace msprobe::analysis::ckpt
