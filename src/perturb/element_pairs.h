// Inside of the room: the elements of two tensors side by side.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "msprobe/tensor_view.h"

#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::perturb {

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

}  // namespace msprobe::perturb
