// Walks over the values of one or two tensors, in row-major order of their elements.
//
// There are three levels, each made of the one before: NumberReader gives any run of elements of a
// tensor as floats or doubles, ForEachRun gives the same runs of two tensors, ForEachPair their
// elements one by one. What a pair means (tolerances, NaN and infinities, rounding) is the caller's
// business. The order of the pairs is fixed, so sums over them have the same bits for any layout.
// ForEachByteRun is the walk for exact comparisons and for kernels that take stored elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::kernels {

// Calls use(left, right, first) for elements [begin, end) of both, `run_elements` at a time: the
// bytes of as many elements of each, and the index of the first. A use may return a bool: false
// ends the walk.
template <typename Use>
void ForEachByteRun(tensor::BlockReader left, tensor::BlockReader right, size_t begin, size_t end,
                    size_t run_elements, const Use& use) {
  using Bytes = std::span<const std::byte>;
  for (size_t first = begin; first < end; first += run_elements) {
    const size_t elements = std::min(run_elements, end - first);
    const Bytes l = left.Read(first, elements);
    const Bytes r = right.Read(first, elements);
    if constexpr (std::is_void_v<std::invoke_result_t<const Use&, Bytes, Bytes, size_t>>) {
      use(l, r, first);
    } else if (!use(l, r, first)) {
      return;
    }
  }
}

// Number: float or double.
template <typename Number>
class NumberReader {
 public:
  explicit NumberReader(TensorView view)
      : view_(std::move(view)),
        blocks_(view_, gathered_),
        count_(static_cast<size_t>(view_.element_count())) {}
  NumberReader(const NumberReader&) = delete;
  NumberReader& operator=(const NumberReader&) = delete;

  // Elements [first, first + count), with zeros past the end of the tensor. Refers to the tensor
  // where it holds Numbers; else valid until the next call.
  std::span<const Number> Read(size_t first, size_t count) {
    const size_t stored = first < count_ ? std::min(count, count_ - first) : 0;
    std::span<const std::byte> bytes;
    if (stored > 0) {
      bytes = blocks_.Read(first, stored);
    }
    constexpr DType kOwn = sizeof(Number) == sizeof(float) ? DType::kFloat32 : DType::kFloat64;
    if (stored == count && view_.dtype == kOwn &&
        reinterpret_cast<uintptr_t>(bytes.data()) % alignof(Number) == 0) {
      return {reinterpret_cast<const Number*>(bytes.data()), count};
    }
    numbers_.resize(std::max(numbers_.size(), count));
    const std::span<Number> out = std::span(numbers_).first(count);
    if constexpr (std::is_same_v<Number, float>) {
      WidenToFloat(view_.dtype, bytes, out.first(stored));
    } else {
      WidenToDouble(view_.dtype, bytes, out.first(stored));
    }
    std::fill(out.begin() + static_cast<ptrdiff_t>(stored), out.end(), Number{0});
    return out;
  }

 private:
  const TensorView view_;
  std::vector<std::byte> gathered_;
  tensor::BlockReader blocks_;
  const size_t count_;
  std::vector<Number> numbers_;
};

// The same as ForEachByteRun with spans of Numbers; a tensor that ends before `end` counts as
// continued by zeros.
template <typename Number, typename Use>
void ForEachRun(const TensorView& left, const TensorView& right, size_t begin, size_t end,
                const Use& use) {
  using Run = std::span<const Number>;
  NumberReader<Number> lefts(left);
  NumberReader<Number> rights(right);
  for (size_t first = begin; first < end; first += tensor::kCopyBlockElements) {
    const size_t elements = std::min(tensor::kCopyBlockElements, end - first);
    const Run l = lefts.Read(first, elements);
    const Run r = rights.Read(first, elements);
    if constexpr (std::is_void_v<std::invoke_result_t<const Use&, Run, Run, size_t>>) {
      use(l, r, first);
    } else if (!use(l, r, first)) {
      return;
    }
  }
}

// All elements of two tensors of as many.
template <typename Number, typename Use>
void ForEachRun(const TensorView& left, const TensorView& right, const Use& use) {
  ForEachRun<Number>(left, right, 0, static_cast<size_t>(left.element_count()), use);
}

// Calls visit(l, r) for all pairs of elements of two tensors of as many.
template <typename Number, typename Visit>
void ForEachPair(const TensorView& left, const TensorView& right, const Visit& visit) {
  using Run = std::span<const Number>;
  ForEachRun<Number>(left, right, [&](Run l, Run r, size_t) {
    for (size_t i = 0; i < l.size(); ++i) {
      visit(l[i], r[i]);
    }
  });
}

}  // namespace msprobe::kernels
