// A whole run of perf_compare: finds the profiles of both paths, pairs them by rank, compares each
// pair, writes the files.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/perf/gates.h"
#include "src/analysis/perf/perf.h"
#include "src/analysis/perf/rank_share.h"
#include "src/analysis/perf/result_files.h"
#include "src/analysis/perf/run_summary.h"
#include "src/base/output_rule.h"
#include "src/report/table.h"

namespace msprobe::analysis::perf {

struct RunOptions {
  Options compare;  // paths may be folders of many ranks
  std::filesystem::path output = ".";
  ResultFormats formats;
  std::vector<Gate> gates;
  size_t threads = 0;
  std::chrono::seconds patience{1800};  // for the other processes of a launch
  bool quiet = false;
};

struct Run {
  base::RunStamp stamp;  // in the names of all its files
  RunSummary summary;
  std::optional<report::Table> overall;  // of a single pair whose times are known
  ProcessShare share;
  // False in all but one process of a launch: that one shows the summary and writes its file.
  bool reports = true;
};

// A single pair that cannot be compared is an error; one of many is marked and the others go on.
Result<Run> RunPerfCompare(const RunOptions& options);

// summary.json in the output folder; returns its path.
Result<std::filesystem::path> WriteSummary(const RunOptions& options, const Run& run,
                                           int exit_code);

}  // namespace msprobe::analysis::perf
