// Statistics of many tensors of one or several files, in parallel, with memory that does not grow
// with the tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/base/threads.h"
#include "src/kernels/stats.h"

namespace msprobe::analysis::inspect {

// Reads one tensor in blocks. `scratch` is reused from call to call. `file` owns the tensor's
// bytes.
kernels::TensorStats StatisticsOf(const TensorFile& file, const TensorView& view,
                                  std::vector<std::byte>& scratch);

}  // namespace msprobe::analysis::inspect
