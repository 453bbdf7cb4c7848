// Vectors as tensors.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include "msprobe/tensor_view.h"

namespace msprobe::test_support {

// A contiguous view of `values`, which must outlive it; `dtype` says what an Element holds.
template <typename Element>
TensorView ViewOf(const std::vector<Element>& values, Shape shape, DType dtype) {
  TensorView view;
  view.dtype = dtype;
  view.strides = ContiguousStrides(shape);
  view.shape = std::move(shape);
  view.data = reinterpret_cast<const std::byte*>(values.data());
  view.extent_bytes = values.size() * sizeof(Element);
  return view;
}
inline TensorView ViewOf(const std::vector<float>& values, Shape shape) {
  return ViewOf(values, std::move(shape), DType::kFloat32);
}
// A template, so that braced numbers are float32.
template <std::same_as<double> Element>
TensorView ViewOf(const std::vector<Element>& values, Shape shape) {
  return ViewOf(values, std::move(shape), DType::kFloat64);
}

}  // namespace msprobe::test_support
