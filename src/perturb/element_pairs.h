// Inside of the room: the elements of two tensors side by side.
#pragma once

#include <algorithm>
#include <cstddef>
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
  std::vector<Value> l(tensor::kCopyBlockElements);
  std::vector<Value> r(tensor::kCopyBlockElements);
  for (size_t first = begin; first < end; first += tensor::kCopyBlockElements) {
    const size_t elements = std::min(tensor::kCopyBlockElements, end - first);
    Widen(left.dtype, lefts.Read(first, elements), std::span(l.data(), elements));
    Widen(right.dtype, rights.Read(first, elements), std::span(r.data(), elements));
    if constexpr (std::is_void_v<std::invoke_result_t<const Use&, Run, Run, size_t>>) {
      use(Run(l.data(), elements), Run(r.data(), elements), first);
    } else if (!use(Run(l.data(), elements), Run(r.data(), elements), first)) {
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
