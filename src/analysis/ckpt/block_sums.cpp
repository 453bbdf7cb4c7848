#include "src/analysis/ckpt/block_sums.h"

#include <cmath>
#include <cstring>
#include <span>

#include "src/analysis/ckpt/wide_elements.h"
#include "src/kernels/convert.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::ckpt {
namespace {

// The block's elements in row-major order: where they lie, or copied when they do not lie so.
const std::byte* Stored(const TensorView& view, bool plain, int64_t first, int64_t count,
                        std::vector<std::byte>& scratch) {
  const size_t element_bytes = DTypeSize(view.dtype);
  if (plain) {
    return view.data + static_cast<size_t>(first) * element_bytes;
  }
  scratch.resize(static_cast<size_t>(count) * element_bytes);
  tensor::CopyElements(view, first, count, scratch.data());
  return scratch.data();
}

std::span<const float> Widened(DType dtype, const std::byte* stored, size_t count,
                               std::vector<float>& scratch) {
  scratch.resize(count);
  kernels::WidenToFloat(dtype, {stored, count * DTypeSize(dtype)}, scratch);
  return scratch;
}

// Dtypes of which every value is a float32, so that the kernels may read them as stored. Others
// lose digits on the way to float32, as they do in the Python tool; a pair of float16 would be
// compared in float16 arithmetic.
bool IsReadAsStored(DType dtype, DType other) {
  if (dtype == DType::kFloat16) {
    return other != DType::kFloat16 && IsReadAsStored(other, DType::kFloat32);
  }
  return GetDTypeInfo(dtype).kind == DTypeKind::kFloat && dtype != DType::kFloat64;
}

struct Operand {
  DType dtype;
  const std::byte* data;
};

Operand AsFloat32Values(DType dtype, DType other, const std::byte* stored, size_t count,
                        std::vector<float>& scratch) {
  if (IsReadAsStored(dtype, other)) {
    return {dtype, stored};
  }
  const std::span<const float> values = Widened(dtype, stored, count, scratch);
  return {DType::kFloat32, reinterpret_cast<const std::byte*>(values.data())};
}

// What the kernel leaves out of its sums: a finite element whose partner is not still belongs to
// the norm of its side.
template <class Value>
void AddNonFinite(std::span<const Value> a, std::span<const Value> b, PairSums& sums) {
  const auto square = [](Value value) {
    return static_cast<double>(value) * static_cast<double>(value);
  };
  for (size_t i = 0; i < a.size(); ++i) {
    const bool finite_a = std::isfinite(a[i]);
    const bool finite_b = std::isfinite(b[i]);
    if (finite_a && finite_b) {
      continue;
    }
    sums.nan_count_a += std::isnan(a[i]) ? 1U : 0U;
    sums.nan_count_b += std::isnan(b[i]) ? 1U : 0U;
    sums.inf_count_a += std::isinf(a[i]) ? 1U : 0U;
    sums.inf_count_b += std::isinf(b[i]) ? 1U : 0U;
    sums.same_inf_count += std::isinf(a[i]) && a[i] == b[i] ? 1U : 0U;
    sums.finite.npu_square_sum += finite_a ? square(a[i]) : 0;
    sums.finite.bench_square_sum += finite_b ? square(b[i]) : 0;
  }
}

template <class Value>
uint64_t CountExceeding(std::span<const Value> a, std::span<const Value> b,
                        const Tolerance& tolerance) {
  uint64_t exceeding = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    const double y = b[i];
    const bool agrees =
        x == y || (std::isnan(x) && std::isnan(y)) ||
        (std::isfinite(x) && std::isfinite(y) &&
         std::fabs(x - y) <= tolerance.absolute + tolerance.relative * std::fabs(y));
    exceeding += agrees ? 0U : 1U;
  }
  return exceeding;
}

double SumOf(const Operand& side, size_t count) {
  const kernels::StatsPartial stats =
      kernels::StatsOfBlock(side.dtype, {side.data, count * DTypeSize(side.dtype)});
  return stats.sum;
}

std::span<const double> InDouble(DType dtype, const std::byte* stored, size_t count,
                                 std::vector<double>& scratch) {
  scratch.resize(count);
  kernels::WidenToDouble(dtype, {stored, count * DTypeSize(dtype)}, scratch);
  return scratch;
}

uint64_t DifferingElements(const kernels::ComparePartial& finite) {
  return finite.different_count + finite.nonfinite_mismatch_count + finite.opposite_inf_count;
}

// Whether every value is a double, so that the kernels lose nothing.
bool FitsDouble(DType dtype) {
  return dtype != DType::kInt64 && dtype != DType::kUInt64 &&
         GetDTypeInfo(dtype).kind != DTypeKind::kComplex;
}

}  // namespace

PairSums SumsOfBlock(const Box& box, int64_t first, int64_t count, const Tolerance& tolerance,
                     bool means, bool float32, BlockScratch& scratch) {
  const auto size = static_cast<size_t>(count);
  const std::byte* stored_a = Stored(box.a, box.plain_a, first, count, scratch.stored_a);
  const std::byte* stored_b = Stored(box.b, box.plain_b, first, count, scratch.stored_b);
  PairSums sums;
  const kernels::ComparePartial& finite = sums.finite;
  if (!float32 && (!FitsDouble(box.a.dtype) || !FitsDouble(box.b.dtype))) {
    sums = WideStepSums(box, stored_a, stored_b, size, tolerance, means);
  } else {
    Operand a{box.a.dtype, stored_a};
    Operand b{box.b.dtype, stored_b};
    // A pair of float16 would be compared in float16 arithmetic.
    if (float32 || (a.dtype == DType::kFloat16 && b.dtype == DType::kFloat16)) {
      a = AsFloat32Values(box.a.dtype, box.b.dtype, stored_a, size, scratch.float_a);
      b = AsFloat32Values(box.b.dtype, box.a.dtype, stored_b, size, scratch.float_b);
    }
    sums.finite = kernels::CompareBlock(a.dtype, a.data, b.dtype, b.data, size);
    // Calls with the elements of both sides as spans of float or double.
    const auto with_values = [&](const auto& call) {
      if (float32) {
        call(Widened(box.a.dtype, stored_a, size, scratch.float_a),
             Widened(box.b.dtype, stored_b, size, scratch.float_b));
      } else {
        call(InDouble(box.a.dtype, stored_a, size, scratch.double_a),
             InDouble(box.b.dtype, stored_b, size, scratch.double_b));
      }
    };
    if (finite.nonfinite_match_count + finite.nonfinite_mismatch_count > 0) {
      with_values([&](const auto& x, const auto& y) { AddNonFinite(x, y, sums); });
    }
    if (tolerance.given() && DifferingElements(finite) > 0) {
      with_values([&](const auto& x, const auto& y) {
        sums.exceeding_count = CountExceeding(x, y, tolerance);
      });
    }
    if (means) {
      sums.sum_a = SumOf(a, size);
      sums.sum_b = SumOf(b, size);
    }
  }
  sums.equal_bits = DifferingElements(finite) == 0 && box.a.dtype == box.b.dtype &&
                    std::memcmp(stored_a, stored_b, size * DTypeSize(box.a.dtype)) == 0;
  return sums;
}

void WideSumsOfBlock(const Box& box, int64_t first, int64_t count, BlockScratch& scratch,
                     WideSums& sums) {
  const auto size = static_cast<size_t>(count);
  const std::byte* stored_a = Stored(box.a, box.plain_a, first, count, scratch.stored_a);
  const std::byte* stored_b = Stored(box.b, box.plain_b, first, count, scratch.stored_b);
  for (size_t i = 0; i < size; ++i) {
    const WideElement a = LoadWide(box.a.dtype, stored_a + i * DTypeSize(box.a.dtype));
    const WideElement b = LoadWide(box.b.dtype, stored_b + i * DTypeSize(box.b.dtype));
    sums.square_sum_a += a.is_finite() ? a.square() : 0;
    sums.square_sum_b += b.is_finite() ? b.square() : 0;
    if (a.is_finite() && b.is_finite()) {
      sums.dot += a.real * b.real + a.imaginary * b.imaginary;
      sums.difference_square_sum += (a - b).square();
    }
  }
}

void FlushedSumsOfBlock(const Box& box, int64_t first, int64_t count, BlockScratch& scratch,
                        kernels::ComparePartial& sums) {
  const auto size = static_cast<size_t>(count);
  const std::byte* stored_a = Stored(box.a, box.plain_a, first, count, scratch.stored_a);
  const std::byte* stored_b = Stored(box.b, box.plain_b, first, count, scratch.stored_b);
  const std::span<const float> a = Widened(box.a.dtype, stored_a, size, scratch.float_a);
  const std::span<const float> b = Widened(box.b.dtype, stored_b, size, scratch.float_b);
  for (size_t i = 0; i < size; ++i) {
    FlushedStep(a[i], b[i], sums);
  }
}

}  // namespace msprobe::analysis::ckpt
