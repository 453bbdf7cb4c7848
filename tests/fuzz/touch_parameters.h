// What every reader of checkpoints promises of its parameters.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "src/checkpoint/checkpoint.h"
#include "src/tensor/tensor_buffer.h"
#include "tests/fuzz/input_folder.h"

namespace msprobe::checkpoint {

// Elements at both ends of what a piece may reach, as they are and misread.
inline void TouchCodes(const Piece& piece, int64_t block) {
  static std::vector<float> values(4096);
  static std::vector<float> bounds(4096);
  int64_t last = piece.coded_first;
  for (size_t axis = 0; axis < piece.view.shape.size(); ++axis) {
    last += (piece.view.shape[axis] - 1) * piece.view.strides[axis];
  }
  if (piece.coded_first < 0 || last >= ElementCount(piece.coded->shape())) {
    std::abort();
  }
  const bool plain = piece.view.is_plain();
  const auto count = static_cast<size_t>(plain ? block : 1);
  std::vector<std::shared_ptr<const io::CodedTensor>> tensors = {piece.coded};
  for (const io::CodedTensor::Reading& reading : piece.coded->OtherReadings()) {
    tensors.push_back(reading.tensor);
  }
  for (const auto& coded : tensors) {
    coded->Decode(piece.coded_first, count, DType::kBFloat16, values.data(), bounds.data());
    coded->Decode(last + 1 - static_cast<int64_t>(count), count, DType::kFloat32, values.data(),
                  bounds.data());
  }
}

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
      if (piece.coded != nullptr) {
        TouchCodes(piece, block);
        continue;
      }
      tensor::CopyElements(piece.view, 0, block, buffer.data());
      tensor::CopyElements(piece.view, count - block, block, buffer.data());
    }
  }
}

}  // namespace msprobe::checkpoint
