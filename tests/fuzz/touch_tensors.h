// Reads every element that the views of a file promise, within reason: the sanitizers see any byte
// outside.
#pragma once

#include <algorithm>
#include <array>

#include "src/io/contents.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::io {

inline void TouchTensors(const TensorFileContents& contents) {
  constexpr int64_t kElements = 4096;
  static std::array<std::byte, kElements * 16> buffer;
  for (const NamedTensor& tensor : contents.tensors) {
    if (!tensor.status.ok()) {
      continue;
    }
    const int64_t count = tensor.view.element_count();
    const int64_t block = std::min(count, kElements);
    tensor::CopyElements(tensor.view, 0, block, buffer.data());
    tensor::CopyElements(tensor.view, count - block, block, buffer.data());
  }
}

}  // namespace msprobe::io
