// How much of a file is read at most, however often it names the same bytes.
#pragma once

#include <cstdint>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::io {

// A view may repeat a few bytes without end (stride 0), and a file may name one storage a million
// times. This limits the bytes that are read for one file to a multiple of its size, so that no
// file keeps a machine busy for hours.
class ReadBudget {
 public:
  explicit ReadBudget(uint64_t file_bytes);

  // For what is held in memory: a tensor that is alone in its file, of which a command reads many
  // and holds some several times, widened or as text. Less of it is free.
  static ReadBudget ForMemory(uint64_t file_bytes);

  // Another file of the same checkpoint.
  void AddFile(uint64_t file_bytes);

  // Ok when the tensor still fits; otherwise the reason why it is left out.
  Status Take(const TensorView& view);

 private:
  ReadBudget(uint64_t file_bytes, uint64_t free_bytes);

  uint64_t left_bytes_;
};

}  // namespace msprobe::io
