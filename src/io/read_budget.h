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

  // Ok when the tensor still fits; otherwise the reason why it is left out.
  Status Take(const TensorView& view);

 private:
  uint64_t left_bytes_;
};

}  // namespace msprobe::io
