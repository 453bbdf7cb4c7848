// How far two tensors of equal shape are apart: the sums behind cosine, euclidean distance, maximum
// absolute and relative error and the shares of small relative errors, in one pass over both sides'
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "msprobe/dtype.h"

#include "src/kernels/codes.h"
#include "src/kernels/stats.h"

namespace msprobe::kernels {

// n = elements of the test side, b = of the bench side. Elements where both sides are NaN, or
// both infinite, count as 0 on both sides (the sign of an infinity is not looked at); elements
// where only one side is, are counted and excluded. Complex values enter with their real part only,
// as the reference does.
struct ComparePartial {
  uint64_t element_count = 0;
  uint64_t nonfinite_mismatch_count = 0;  // NaN or inf on one side only, or NaN against inf
  uint64_t nonfinite_match_count = 0;
  uint64_t opposite_inf_count = 0;  // of the matches: +inf against -inf
  double dot = 0;                   // sum n*b
  double npu_square_sum = 0;
  double bench_square_sum = 0;
  double difference_square_sum = 0;           // sum (n-b)^2
  double max_abs_error = 0;                   // NaN if any |n-b| is NaN
  double max_relative_error = 0;              // max r, may be inf; NaN if any r is NaN
  uint64_t below_one_thousandth_count = 0;    // r < 0.001
  uint64_t below_five_thousandths_count = 0;  // r < 0.005
  uint64_t different_count = 0;               // n != b
};

// The type that relative errors are computed in.
enum class RelativeArithmetic : uint8_t {
  kOfDTypes,        // float16 pairs in float16
  kAtLeastFloat32,  // float16 is widened to float32 first, and what is added to zeros is the
                    // epsilon of the type: 2^-23 or 2^-52
};

// r = |(n - b) / b| in the wider of the two dtypes (float16 with float16 stays float16; float16
// with float32 is float32; an integer, bool or complex side makes it float64), after
// 2.220446049250313e-16, rounded to that side's dtype, has been added to n and b where b == 0.
// bfloat16 and the 8-bit floats are widened to float32 first. The thresholds are rounded to the
// type of r. Meant for blocks of tensor::kSumBlockElements; longer runs are cut into such blocks.
ComparePartial CompareBlock(DType npu_dtype, const std::byte* npu, DType bench_dtype,
                            const std::byte* bench, size_t element_count,
                            RelativeArithmetic arithmetic = RelativeArithmetic::kOfDTypes);
void MergeCompare(ComparePartial& into, const ComparePartial& next);

// All blocks of tensor::kSumBlockElements in order, in one thread.
ComparePartial CompareTensors(DType npu_dtype, const std::byte* npu, DType bench_dtype,
                              const std::byte* bench, size_t element_count,
                              RelativeArithmetic arithmetic = RelativeArithmetic::kOfDTypes);

// Elements of both sides in the form that was promised, and how far apart each pair may be.
struct BoundedRun {
  const std::byte* npu = nullptr;
  const std::byte* bench = nullptr;
  const float* bounds = nullptr;
  // Codes in the place of the side that is not bfloat16 and of `bounds`.
  const CodedRun* codes = nullptr;
};
enum class BoundedForm : uint8_t { kFloat32, kBFloat16Npu, kBFloat16Bench };
// CompareBlock of values that are made run by run: `read` gives elements [first, first + count) as
// float32, or those of one side as bfloat16, and is called with runs that stay in a cache, in
// order. The dtypes are those of the sides before they were widened. Without the shares of small
// relative errors; sums of products are added up in float32 over 8 elements before they become
// double, and are right to 2^-21 or better.
inline constexpr size_t kBoundedRunElements = 1024;
struct BoundedPartial {
  ComparePartial sums;
  double npu_sum = 0;  // of the elements, when asked for
  double bench_sum = 0;
  uint64_t beyond = 0;  // elements that are farther apart than their bounds
  // False where squares leave the range of float32: an element that is not finite, very large, or
  // a side or its differences that are very small. The sums say nothing then.
  bool in_range = false;
};
BoundedPartial CompareBounded(DType npu_dtype, DType bench_dtype, BoundedForm form,
                              size_t element_count, bool sums,
                              const std::function<BoundedRun(size_t first, size_t count)>& read);

}  // namespace msprobe::kernels
