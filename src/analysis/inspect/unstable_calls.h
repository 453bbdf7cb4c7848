// The rows of free_benchmark.csv as a ranking: which functions are unstable, how much, how often.
#pragma once

#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/inspect/options.h"
#include "src/analysis/inspect/result.h"

namespace msprobe::analysis::inspect {

// Whether a file begins with the header of free_benchmark.csv, of PyTorch or of MindSpore.
bool IsUnstableCallsFile(const std::filesystem::path& path);

// The tables of a folder, of a step, or of a rank: step<N>/rank<M>/free_benchmark.csv, also those
// with a number ("free_benchmark_2.csv"); empty where there are none.
Result<std::vector<std::filesystem::path>> UnstableCallsFilesIn(
    const std::filesystem::path& folder);

// A row per function, the least stable one first. A line that is no row is a marked row, and so is
// a file that cannot be read.
Result<Contents> RankUnstableCalls(const Options& options,
                                   const std::vector<std::filesystem::path>& files);

}  // namespace msprobe::analysis::inspect
