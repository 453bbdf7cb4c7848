// Rows whose tensors were saved: opens both files of each pair and compares their elements.
#pragma once

#include "src/analysis/compare/result.h"
#include "src/analysis/compare/side.h"
#include "src/base/thread_pool.h"

namespace msprobe::analysis {

// Fills metrics, verdict, message and distance of every row of `result`. A file that cannot be read
// marks its row. The values do not depend on the number of threads. Memory: two blocks per thread
// besides mapped files.
void CompareRealData(const Side& npu, const Side& bench, base::ThreadPool& pool, bool quiet,
                     CompareResult& result);

}  // namespace msprobe::analysis
