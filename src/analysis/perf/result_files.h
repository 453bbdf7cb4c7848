// The files of one comparison: a workbook under the Python tool's name, and its sheets as text.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/perf/options.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/threads.h"

namespace msprobe::analysis::perf {

// <UTC yyyymmddHHMMSS>, see base::RunStamp. Processes of one launch write beside each other: what
// tells their files apart is the rank.
Result<base::RunStamp> TakeStamp(const std::filesystem::path& folder,
                                 const base::ProcessShare& share);

// performance_comparison_result_<stamp>[_rankN]
std::filesystem::path ResultStem(const std::filesystem::path& folder, const std::string& stamp,
                                 const std::optional<int64_t>& rank);

// {stem}.xlsx, {stem}_Kernels.csv, {stem}_{sheet}.csv and {stem}_{sheet}.jsonl. Columns of the text
// files are named after their side: "Base Calls", "Comparison Calls". Returns the paths.
Result<std::vector<std::filesystem::path>> WriteResultFiles(const PairComparison& comparison,
                                                            const std::filesystem::path& stem,
                                                            const ResultFormats& formats,
                                                            base::ThreadPool& pool);

}  // namespace msprobe::analysis::perf
