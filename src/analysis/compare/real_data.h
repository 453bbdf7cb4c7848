// Rows whose tensors were saved: opens both files of each pair and compares their elements.
#pragma once

#include <optional>
#include <string_view>

#include "msprobe/status.h"

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"
#include "src/base/threads.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::compare {

// Tensors that are compared otherwise than as their files hold them. Thread-safe.
class TensorLoader {
 public:
  virtual ~TensorLoader() = default;
  // Row-major; nullopt: the row's file as it is. An error marks the row.
  virtual Result<std::optional<tensor::TensorBuffer>> Load(bool of_npu,
                                                           const SideRow& row) const = 0;
};

// Fills metrics, verdict, message and distance of every row of `result`. A file that cannot be read
// marks its row. The values do not depend on the number of threads. Memory: two blocks per thread
// besides mapped files.
void CompareRealData(const Side& npu, const Side& bench, base::ThreadPool& pool, bool quiet,
                     PairResult& result, const TensorLoader* loader = nullptr);

}  // namespace msprobe::analysis::compare
