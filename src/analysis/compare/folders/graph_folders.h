// MindSpore static-graph kernel dumps: folders of .npy files or of a statistic.csv per rank and
// step, compared pair by pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/folders/folders.h"
#include "src/analysis/compare/options.h"
#include "src/base/threads.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare {

// The two kinds of kernel folders: rows from .npy files, rows from a statistic.csv.

inline constexpr const char* kKernelStatisticFile = "statistic.csv";

enum class KernelFolderKind : uint8_t { kNeither, kArrays, kStatistics };
KernelFolderKind KindOf(const Folder& folder);

// Columns of the result: the common ones, statistics, verdict, message, metrics.
std::vector<std::string> KernelColumns(KernelFolderKind kind);

// Append one row per kernel tensor of either side: those with an NPU side first. `table` has the
// columns of the kind. `counts` are counted on.
Status AppendArrayRows(const Folder& npu, const Folder& bench, base::ThreadPool& pool,
                       report::Table& table, FolderCounts& counts,
                       std::vector<std::string>& warnings);
Status AppendStatisticRows(const Folder& npu, const Folder& bench, report::Table& table,
                           FolderCounts& counts);

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
// A row with values on both sides.
struct KernelOutcome {
  const KernelKey* key = nullptr;
  Distance distance;
  double noise = 0;
};
// Counts them in the order in which the kernels ran, so that the first differing one is the first
// that ran.
void CountInOrder(std::vector<KernelOutcome> outcomes, FolderCounts& counts);

// Pairs the n-th of a key in time with the n-th of that key on the other side. NPU rows in their
// order, then what only the bench side has in its order.
std::vector<KernelPair> PairKernels(const std::vector<KernelKey>& npu,
                                    const std::vector<KernelKey>& bench);

// Compares every (rank, step) that both options.npu_path and options.bench_path hold, filtered by
// options.folders.rank_ids (not given: all) and step_ids, in rising order. Tables are named
// compare_result_<rank>_<step>. A pair that cannot be compared is a warning; none at all an error.
Result<FolderComparison> CompareGraphFolders(const Options& options, base::ThreadPool& pool);

// Whether there is such a folder, of whatever rank and step.
bool HoldsGraphKernels(const std::filesystem::path& folder);

// (first row, row count) of each part of a table that is halved until no part exceeds `limit` rows.
std::vector<std::pair<size_t, size_t>> HalveRows(size_t row_count, size_t limit);

}  // namespace msprobe::analysis::compare
