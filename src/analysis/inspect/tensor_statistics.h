// Statistics of many tensors of one or several files, in parallel, with memory that does not grow
// with the tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/base/thread_pool.h"
#include "src/kernels/stats.h"

namespace msprobe::analysis {

// Reads one tensor in blocks. `scratch` is reused from call to call. `file` owns the tensor's
// bytes.
kernels::TensorStats StatisticsOf(const TensorFile& file, const TensorView& view,
                                  std::vector<std::byte>& scratch);

// A view may repeat a few bytes without end (stride 0), and a file may name one storage a million
// times. This limits the bytes that are read for one file to a multiple of its size, so that no
// file keeps a machine busy for hours.
class ReadBudget {
 public:
  explicit ReadBudget(uint64_t file_bytes);

  // Ok when the tensor still fits; otherwise the reason why its statistics are left out.
  Status Take(const TensorView& view);

 private:
  uint64_t left_bytes_;
};

}  // namespace msprobe::analysis
