#include "src/kernels/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "src/kernels/convert.h"
#include "src/kernels/kernel_table.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::kernels {
namespace {

using internal::CompareFunction;
using internal::CompareLanes;
using internal::KernelTable;
using internal::kGroupElements;
using internal::RelativeRule;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Elements of each conversion buffer; both sides together stay in the L1 cache.
constexpr size_t kBufferElements = 1024;

// The type relative errors are computed in.
enum class Arithmetic { kFloat16, kFloat32, kFloat64 };

struct Plan {
  Arithmetic arithmetic = Arithmetic::kFloat64;
  RelativeRule rule;
};

Arithmetic ArithmeticOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return Arithmetic::kFloat16;
    case DType::kFloat32:
    case DType::kBFloat16:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ:
      return Arithmetic::kFloat32;
    default:
      return Arithmetic::kFloat64;
  }
}

Plan MakePlan(DType npu_dtype, DType bench_dtype, RelativeArithmetic arithmetic) {
  Plan plan;
  if (GetDTypeInfo(bench_dtype).kind != DTypeKind::kFloat) {
    return plan;  // both sides are cast to double first
  }
  const Arithmetic npu = ArithmeticOf(npu_dtype);
  const Arithmetic bench = ArithmeticOf(bench_dtype);
  if (arithmetic == RelativeArithmetic::kAtLeastFloat32) {
    plan.arithmetic = std::max({npu, bench, Arithmetic::kFloat32});
    plan.rule.npu_epsilon = plan.rule.bench_epsilon = plan.arithmetic == Arithmetic::kFloat32
                                                          ? std::numeric_limits<float>::epsilon()
                                                          : internal::kRelativeEpsilon;
    return plan;
  }
  plan.arithmetic = std::max(npu, bench);
  plan.rule.npu_epsilon = npu == Arithmetic::kFloat16 ? 0 : internal::kRelativeEpsilon;
  plan.rule.bench_epsilon = bench == Arithmetic::kFloat16 ? 0 : internal::kRelativeEpsilon;
  plan.rule.npu_is_float32 = npu == Arithmetic::kFloat32 && bench == Arithmetic::kFloat64;
  return plan;
}

void VectorsThenRest(CompareFunction KernelTable::*function, size_t element_bytes,
                     const std::byte* npu, const std::byte* bench, size_t count,
                     const RelativeRule& rule, CompareLanes& lanes) {
  const size_t grouped = count / kGroupElements * kGroupElements;
  (internal::ActiveTable().*function)(npu, bench, grouped, rule, lanes);
  (internal::PlainTable().*function)(npu + grouped * element_bytes, bench + grouped * element_bytes,
                                     count - grouped, rule, lanes);
}

double SumOfLanes(const double (&lanes)[internal::kCompareLanes]) {
  static_assert(internal::kCompareLanes == 8);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

void Finish(const CompareLanes& lanes, ComparePartial& partial) {
  partial.dot = SumOfLanes(lanes.dot);
  partial.npu_square_sum = SumOfLanes(lanes.npu_square_sum);
  partial.bench_square_sum = SumOfLanes(lanes.bench_square_sum);
  partial.difference_square_sum = SumOfLanes(lanes.difference_square_sum);
  partial.max_abs_error = lanes.max_abs_error;
  partial.max_relative_error = lanes.relative_error_nan ? kNan : lanes.max_relative_error;
  partial.below_one_thousandth_count = lanes.below_one_thousandth_count;
  partial.below_five_thousandths_count = lanes.below_five_thousandths_count;
  partial.different_count = lanes.different_count;
}

// Finite elements, gathered until a buffer is full.
template <class T>
class PairBuffer {
 public:
  PairBuffer(CompareFunction KernelTable::*function, const RelativeRule& rule)
      : function_(function), rule_(rule) {}

  // Matching NaN and infinities enter as 0 on both sides, others are left out; both are counted.
  void Append(std::span<const T> npu, std::span<const T> bench, ComparePartial& partial) {
    for (size_t i = 0; i < npu.size(); ++i) {
      T n = npu[i];
      T b = bench[i];
      if (!std::isfinite(n) || !std::isfinite(b)) {
        if (std::isnan(n) != std::isnan(b) || std::isinf(n) != std::isinf(b)) {
          ++partial.nonfinite_mismatch_count;
          continue;
        }
        ++partial.nonfinite_match_count;
        partial.opposite_inf_count += std::isinf(n) && std::signbit(n) != std::signbit(b) ? 1U : 0U;
        n = 0;
        b = 0;
      }
      npu_[used_] = n;
      bench_[used_] = b;
      if (++used_ == kBufferElements) {
        Flush();
      }
    }
  }

  const CompareLanes& Finished() {
    Flush();
    return lanes_;
  }

 private:
  void Flush() {
    VectorsThenRest(function_, sizeof(T), reinterpret_cast<const std::byte*>(npu_.data()),
                    reinterpret_cast<const std::byte*>(bench_.data()), used_, rule_, lanes_);
    used_ = 0;
  }

  CompareFunction KernelTable::*function_;
  RelativeRule rule_;
  std::array<T, kBufferElements> npu_;
  std::array<T, kBufferElements> bench_;
  size_t used_ = 0;
  CompareLanes lanes_;
};

// One of the two tensors, read as T whatever its dtype.
template <class T>
class Operand {
 public:
  Operand(DType dtype, const std::byte* data)
      : dtype_(dtype), element_bytes_(DTypeSize(dtype)), data_(data) {}

  // The address of `size` values, which may be unaligned: as stored where they are of type T, else
  // in the buffer.
  const std::byte* Values(size_t first, size_t size) {
    constexpr DType kSame = sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;
    return dtype_ == kSame ? data_ + first * element_bytes_
                           : reinterpret_cast<const std::byte*>(Widened(first, size).data());
  }

  std::span<const T> Widened(size_t first, size_t size) {
    const std::span<const std::byte> bytes(data_ + first * element_bytes_, size * element_bytes_);
    const std::span<T> values = std::span(buffer_).first(size);
    if constexpr (sizeof(T) == 4) {
      WidenToFloat(dtype_, bytes, values);
    } else {
      WidenToDouble(dtype_, bytes, values);
    }
    return values;
  }

 private:
  DType dtype_;
  size_t element_bytes_;
  const std::byte* data_;
  std::array<T, kBufferElements> buffer_;
};

bool SquaresAreFinite(const ComparePartial& partial) {
  return std::isfinite(partial.npu_square_sum) && std::isfinite(partial.bench_square_sum);
}

// Any pair of dtypes, any values. Sums of squares that are finite tell that every element was; only
// the others are looked at one by one.
template <class T>
ComparePartial CompareConverted(CompareFunction KernelTable::*function, const RelativeRule& rule,
                                Operand<T> npu, Operand<T> bench, size_t count,
                                bool known_non_finite) {
  ComparePartial partial;
  partial.element_count = count;
  if (!known_non_finite) {
    CompareLanes lanes;
    for (size_t first = 0; first < count; first += kBufferElements) {
      const size_t size = std::min(kBufferElements, count - first);
      VectorsThenRest(function, sizeof(T), npu.Values(first, size), bench.Values(first, size), size,
                      rule, lanes);
    }
    Finish(lanes, partial);
    if (SquaresAreFinite(partial)) {
      return partial;
    }
  }
  PairBuffer<T> pairs(function, rule);
  for (size_t first = 0; first < count; first += kBufferElements) {
    const size_t size = std::min(kBufferElements, count - first);
    pairs.Append(npu.Widened(first, size), bench.Widened(first, size), partial);
  }
  Finish(pairs.Finished(), partial);
  return partial;
}

// The loop that reads both sides as stored, for pairs of one common dtype; nullptr for others.
CompareFunction KernelTable::*DirectLoop(DType npu_dtype, DType bench_dtype,
                                         RelativeArithmetic arithmetic) {
  const bool widened_first =
      arithmetic == RelativeArithmetic::kAtLeastFloat32 && npu_dtype == DType::kFloat16;
  if (npu_dtype != bench_dtype || widened_first) {
    return nullptr;
  }
  switch (npu_dtype) {
    case DType::kFloat32:
      return &KernelTable::compare_float32;
    case DType::kBFloat16:
      return &KernelTable::compare_bfloat16;
    case DType::kFloat16:
      return &KernelTable::compare_float16;
    case DType::kFloat64:
      return &KernelTable::compare_float64;
    default:
      return nullptr;
  }
}

}  // namespace

ComparePartial CompareBlock(DType npu_dtype, const std::byte* npu, DType bench_dtype,
                            const std::byte* bench, size_t element_count,
                            RelativeArithmetic arithmetic) {
  if (element_count > tensor::kSumBlockElements) {
    return CompareTensors(npu_dtype, npu, bench_dtype, bench, element_count, arithmetic);
  }
  const Plan plan = MakePlan(npu_dtype, bench_dtype, arithmetic);
  bool known_non_finite = false;
  if (const auto direct = DirectLoop(npu_dtype, bench_dtype, arithmetic); direct != nullptr) {
    CompareLanes lanes;
    VectorsThenRest(direct, DTypeSize(npu_dtype), npu, bench, element_count, plan.rule, lanes);
    ComparePartial partial;
    partial.element_count = element_count;
    Finish(lanes, partial);
    if (SquaresAreFinite(partial)) {
      return partial;
    }
    known_non_finite = true;
  }
  const auto converted = [&]<class T>(CompareFunction KernelTable::*function, T /*type*/) {
    return CompareConverted<T>(function, plan.rule, {npu_dtype, npu}, {bench_dtype, bench},
                               element_count, known_non_finite);
  };
  switch (plan.arithmetic) {
    case Arithmetic::kFloat16:
      return converted(&KernelTable::compare_widened_float16, float{});
    case Arithmetic::kFloat32:
      return converted(&KernelTable::compare_float32, float{});
    case Arithmetic::kFloat64:
      break;
  }
  return converted(&KernelTable::compare_float64, double{});
}

namespace {

// Squares of what is left out are below 2^-126, and blocks have 2^16 elements.
constexpr double kSmallestSquareSum = 0x1p-80;

struct BoundedLoop {
  internal::BoundedFunction KernelTable::*loop = nullptr;
  size_t npu_bytes = 0;
  size_t bench_bytes = 0;
};

BoundedLoop LoopOf(BoundedForm form) {
  switch (form) {
    case BoundedForm::kFloat32:
      break;
    case BoundedForm::kBFloat16Npu:
      return {&KernelTable::bounded_bfloat16_npu, 2, 4};
    case BoundedForm::kBFloat16Bench:
      return {&KernelTable::bounded_bfloat16_bench, 4, 2};
  }
  return {&KernelTable::bounded_float32, 4, 4};
}

void CompareRun(const BoundedRun& run, const BoundedLoop& loop, size_t size,
                const RelativeRule& rule, bool sums, internal::BoundedLanes& lanes) {
  const size_t grouped = size / kGroupElements * kGroupElements;
  (internal::ActiveTable().*loop.loop)(run.npu, run.bench, run.bounds, grouped, rule, sums, lanes);
  (internal::PlainTable().*loop.loop)(run.npu + grouped * loop.npu_bytes,
                                      run.bench + grouped * loop.bench_bytes, run.bounds + grouped,
                                      size - grouped, rule, sums, lanes);
}

// Codes against bfloat16. Most blocks change no largest error and are decoded and compared in
// registers; where many do, trying it first only costs time.
class CodedComparison {
 public:
  CodedComparison(const BoundedLoop& loop, const RelativeRule& rule, bool sums)
      : loop_(loop), rule_(rule), sums_(sums) {}

  void Compare(const BoundedRun& run, size_t size, internal::BoundedLanes& lanes) {
    const bool npu_is_coded = run.npu == nullptr;
    const internal::CodedFunction in_registers = internal::ActiveTable().coded_bfloat16;
    for (size_t at = 0; at < size;) {
      if (!sums_ && in_registers != nullptr && missed_ <= kFewMisses + tried_ / 8) {
        const size_t before = at;
        at += in_registers(
            *run.codes, npu_is_coded, npu_is_coded ? run.bench : run.npu, at,
            (size - at) / internal::kBoundedSumElements * internal::kBoundedSumElements, rule_,
            lanes);
        tried_ += (at - before) / internal::kBoundedSumElements + 1;
        missed_ += at < size ? 1 : 0;
      }
      if (at < size) {
        const size_t rest = std::min(
            size - at, missed_ <= kFewMisses + tried_ / 8 ? internal::kBoundedSumElements : size);
        DecodeRun(*run.codes, at, rest, values_.data(), bounds_.data());
        const auto* values = reinterpret_cast<const std::byte*>(values_.data());
        CompareRun({npu_is_coded ? values : run.npu + at * loop_.npu_bytes,
                    npu_is_coded ? run.bench + at * loop_.bench_bytes : values, bounds_.data()},
                   loop_, rest, rule_, sums_, lanes);
        at += rest;
      }
    }
  }

 private:
  static constexpr size_t kFewMisses = 32;

  const BoundedLoop& loop_;
  const RelativeRule& rule_;
  const bool sums_;
  size_t tried_ = 0;
  size_t missed_ = 0;
  alignas(64) std::array<float, kBoundedRunElements> values_;
  alignas(64) std::array<float, kBoundedRunElements> bounds_;
};

}  // namespace

BoundedPartial CompareBounded(DType npu_dtype, DType bench_dtype, BoundedForm form,
                              size_t element_count, bool sums,
                              const std::function<BoundedRun(size_t first, size_t count)>& read) {
  const RelativeRule rule = MakePlan(npu_dtype, bench_dtype, RelativeArithmetic::kOfDTypes).rule;
  const BoundedLoop form_loop = LoopOf(form);
  internal::BoundedLanes lanes;
  CodedComparison coded(form_loop, rule, sums);
  for (size_t first = 0; first < element_count; first += kBoundedRunElements) {
    const size_t size = std::min(kBoundedRunElements, element_count - first);
    const BoundedRun run = read(first, size);
    if (run.codes != nullptr) {
      coded.Compare(run, size, lanes);
    } else {
      CompareRun(run, form_loop, size, rule, sums, lanes);
    }
  }
  BoundedPartial partial;
  partial.sums.element_count = element_count;
  Finish(lanes, partial.sums);
  partial.npu_sum = SumOfLanes(lanes.npu_sum);
  partial.bench_sum = SumOfLanes(lanes.bench_sum);
  partial.beyond = lanes.beyond;
  const ComparePartial& of = partial.sums;
  partial.in_range = SquaresAreFinite(of) && of.npu_square_sum >= kSmallestSquareSum &&
                     of.bench_square_sum >= kSmallestSquareSum &&
                     (of.different_count == 0 || of.difference_square_sum >= kSmallestSquareSum);
  return partial;
}

void MergeCompare(ComparePartial& into, const ComparePartial& next) {
  into.element_count += next.element_count;
  into.nonfinite_mismatch_count += next.nonfinite_mismatch_count;
  into.nonfinite_match_count += next.nonfinite_match_count;
  into.opposite_inf_count += next.opposite_inf_count;
  into.dot += next.dot;
  into.npu_square_sum += next.npu_square_sum;
  into.bench_square_sum += next.bench_square_sum;
  into.difference_square_sum += next.difference_square_sum;
  const auto larger = [](double a, double b) {
    return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b);
  };
  into.max_abs_error = larger(into.max_abs_error, next.max_abs_error);
  into.max_relative_error = larger(into.max_relative_error, next.max_relative_error);
  into.below_one_thousandth_count += next.below_one_thousandth_count;
  into.below_five_thousandths_count += next.below_five_thousandths_count;
  into.different_count += next.different_count;
}

ComparePartial CompareTensors(DType npu_dtype, const std::byte* npu, DType bench_dtype,
                              const std::byte* bench, size_t element_count,
                              RelativeArithmetic arithmetic) {
  ComparePartial total;
  for (size_t first = 0; first < element_count; first += tensor::kSumBlockElements) {
    const size_t size = std::min(tensor::kSumBlockElements, element_count - first);
    MergeCompare(total, CompareBlock(npu_dtype, npu + first * DTypeSize(npu_dtype), bench_dtype,
                                     bench + first * DTypeSize(bench_dtype), size, arithmetic));
  }
  return total;
}

}  // namespace msprobe::kernels
