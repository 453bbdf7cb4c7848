// Parameters made by hand, for tests.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"
#include "src/tensor/float_bits.h"

namespace msprobe::analysis::ckpt {

// Keeps the bytes that parameters borrow.
class Memory {
 public:
  template <typename T>
  TensorView Tensor(DType dtype, Shape shape, const std::vector<T>& values) {
    std::vector<std::byte>& bytes = bytes_.emplace_back(values.size() * sizeof(T));
    if (!values.empty()) {
      std::memcpy(bytes.data(), values.data(), bytes.size());
    }
    TensorView view;
    view.dtype = dtype;
    view.strides = ContiguousStrides(shape);
    view.shape = std::move(shape);
    view.data = bytes.data();
    view.extent_bytes = bytes.size();
    return view;
  }

  checkpoint::Parameter Floats(std::string name, Shape shape, const std::vector<float>& values) {
    return checkpoint::MakeParameter(
        std::move(name), Tensor(DType::kFloat32, std::move(shape), values), checkpoint::kNoFile);
  }

  // The whole, cut along `axis` into copies of `sizes` and joined again.
  checkpoint::Parameter Sharded(const checkpoint::Parameter& whole, size_t axis,
                                std::span<const int64_t> sizes) {
    std::vector<checkpoint::Parameter> parts;
    int64_t begin = 0;
    for (const int64_t size : sizes) {
      const auto slice = checkpoint::Slice(whole, axis, begin, size);
      const TensorView& view = slice->pieces.at(0).view;
      std::vector<float> values(static_cast<size_t>(view.element_count()));
      Copy(view, values);
      parts.push_back(Floats(whole.name, slice->shape, values));
      begin += size;
    }
    return *checkpoint::Concatenate(parts, axis);
  }

 private:
  static void Copy(const TensorView& view, std::vector<float>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      auto rest = static_cast<int64_t>(i);
      int64_t offset = 0;
      for (size_t axis = view.shape.size(); axis-- > 0;) {
        offset += rest % view.shape[axis] * view.strides[axis];
        rest /= view.shape[axis];
      }
      std::memcpy(&values[i], view.data + offset * 4, 4);
    }
  }

  std::deque<std::vector<std::byte>> bytes_;
};

// Values without a pattern that lanes or blocks could hide.
inline std::vector<float> Noise(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  uint32_t state = seed * 2654435761U + 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(state >> 8U) - (1 << 23)) * 0x1p-24F;
  }
  return values;
}

}  // namespace msprobe::analysis::ckpt
