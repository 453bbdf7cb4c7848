// The summary of a run as JSON, for programs; and back, for the parts that processes hand on.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/analysis/perf/result.h"

namespace msprobe::analysis::perf {

// summary.json, described in docs/commands/perf_compare.md.
std::string SummaryJson(const RunSummary& run, int exit_code);

// summary.json in the output folder; returns its path.
Result<std::filesystem::path> WriteSummary(const Options& options, const RunResult& run,
                                           int exit_code);

// The ranks of one of its texts. Keys that are not known are left out.
Result<std::vector<RankSummary>> ParseRanks(std::string_view text);

}  // namespace msprobe::analysis::perf
