// Rows for the entries of one dump.json or debug.json.
#pragma once

#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/inspect/inspect.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::inspect {

// The rows of free_benchmark.csv as a ranking: which functions are unstable, how much, how often.

// Whether a file begins with the header of free_benchmark.csv, of PyTorch or of MindSpore.
bool IsUnstableCallsFile(const std::filesystem::path& path);

// The tables of a folder, of a step, or of a rank: step<N>/rank<M>/free_benchmark.csv, also those
// with a number ("free_benchmark_2.csv"); empty where there are none.
Result<std::vector<std::filesystem::path>> UnstableCallsFilesIn(
    const std::filesystem::path& folder);

// A row per function, the least stable one first. A line that is not a row is a marked row, and so
// is a file that cannot be read.
Result<Contents> RankUnstableCalls(const Options& options,
                                   const std::vector<std::filesystem::path>& files);

// The overview of a dump folder.

// One row per rank of each step: what was captured, how much, and whether it is complete. Fails
// when no rank can be read.
Result<Contents> InspectDumpFolder(const Options& options, const dump::DumpLayout& layout);

// One row per tensor or scalar argument. With options.statistics those of a row's tensor file
// replace the recorded ones, and NaN, Inf and zeros are counted.
Result<Contents> InspectDumpFile(const Options& options);

}  // namespace msprobe::analysis::inspect
