// What every reader of checkpoints promises of its parameters.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>

#include "src/checkpoint/checkpoint.h"
#include "src/tensor/tensor_buffer.h"
#include "tests/fuzz/input_folder.h"

namespace msprobe::checkpoint {

inline void TouchParameters(const Checkpoint& checkpoint) {
  constexpr int64_t kElements = 4096;
  static std::array<std::byte, kElements * 16> buffer;
  for (const Parameter& parameter : checkpoint.parameters) {
    if (parameter.element_count() < 0) {
      std::abort();
    }
    if (!parameter.status.ok()) {
      continue;
    }
    for (const Piece& piece : parameter.pieces) {
      for (size_t axis = 0; axis < parameter.shape.size(); ++axis) {
        if (piece.offset[axis] + piece.view.shape[axis] > parameter.shape[axis]) {
          std::abort();
        }
      }
      const int64_t count = piece.view.element_count();
      const int64_t block = std::min(count, kElements);
      tensor::CopyElements(piece.view, 0, block, buffer.data());
      tensor::CopyElements(piece.view, count - block, block, buffer.data());
    }
  }
}

}  // namespace msprobe::checkpoint
