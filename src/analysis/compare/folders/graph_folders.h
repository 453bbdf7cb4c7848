// How kernels of MindSpore's graphs pair, and how large tables are cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/analysis/compare/folders/folders.h"

namespace msprobe::analysis::compare {

// A tensor by what identifies it in both runs, and when it was written.
struct KernelKey {
  std::string key;   // operator name, task, direction, slot
  std::string time;  // digits
};

inline constexpr size_t kNoKernel = SIZE_MAX;
struct KernelPair {
  size_t npu = kNoKernel;
  size_t bench = kNoKernel;
};

// Pairs the n-th of a key in time with the n-th of that key on the other side. NPU rows in their
// order, then rows of the bench side alone in its order.
std::vector<KernelPair> PairKernels(const std::vector<KernelKey>& npu,
                                    const std::vector<KernelKey>& bench);

// (first row, row count) of each part of a table that is halved until no part exceeds `limit` rows.
std::vector<std::pair<size_t, size_t>> HalveRows(size_t row_count, size_t limit);

}  // namespace msprobe::analysis::compare
