// Pairs of parameters, element by element: streamed in blocks on all threads, whatever pieces they
// lie in.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "msprobe/tensor_file.h"

#include "src/analysis/ckpt/match.h"
#include "src/analysis/ckpt/options.h"
#include "src/analysis/ckpt/result.h"
#include "src/base/threads.h"

namespace msprobe::analysis::ckpt {

struct PairSettings {
  Tolerance tolerance;
  bool means = false;  // also sum_a and sum_b
  // Elements and figures as the Python tool has them: rounded to float32, complex ones without
  // their imaginary part. Otherwise nothing is lost.
  bool float32 = false;
  // Called from any thread when so many elements of one side (and bytes of both) are done.
  std::function<void(uint64_t elements, uint64_t bytes)> on_progress;
};

// One result per pair, in their order. The figures do not depend on the number of threads. Memory:
// some blocks per thread. Pages of mapped files are handed back behind the comparison.
std::vector<PairResult> ComparePairs(std::span<const MatchedPair> pairs,
                                     const std::deque<TensorFile>& files_a,
                                     const std::deque<TensorFile>& files_b,
                                     const PairSettings& settings, base::ThreadPool& pool);

}  // namespace msprobe::analysis::ckpt
