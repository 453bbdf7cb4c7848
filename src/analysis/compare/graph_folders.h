// MindSpore static-graph kernel dumps: folders of .npy files or of a statistic.csv per rank and
// step, compared pair by pair.
#pragma once

#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/array_pair.h"
#include "src/analysis/compare/options.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// Compares every (rank, step) that both options.npu_path and options.bench_path hold, filtered by
// options.rank_ids (not given: all) and step_ids, in rising order. Tables are named
// compare_result_<rank>_<step>. A pair that cannot be compared is a warning; none at all an error.
Result<FolderComparison> CompareGraphFolders(const Options& options, base::ThreadPool& pool);

// Whether there is such a folder, of whatever rank and step.
bool HoldsGraphKernels(const std::filesystem::path& folder);

// (first row, row count) of each part of a table that is halved until no part exceeds `limit` rows.
std::vector<std::pair<size_t, size_t>> HalveRows(size_t row_count, size_t limit);

}  // namespace msprobe::analysis::compare
