// The whole of `compare`: finds the pairs, compares each, writes the files, sums up. Never prints.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/options.h"
#include "src/analysis/compare/summary.h"
#include "src/base/output_rule.h"

namespace msprobe::analysis {

struct CompareRun {
  base::RunStamp stamp;  // in the names of all its files
  RunSummary summary;
  std::vector<std::string> warnings;
  std::vector<std::string> answers;          // of -da: one line per step
  std::vector<std::string> log_lines;        // of -tensor_log
  std::vector<std::filesystem::path> files;  // of -da, beside those of the pairs
};

// Not ok when nothing could be compared at all. A pair that fails among several is recorded in its
// summary; the others go on.
Result<CompareRun> RunCompare(const CompareOptions& options);

// summary.json into the output folder; returns its path.
Result<std::filesystem::path> WriteSummary(const CompareOptions& options, const CompareRun& run,
                                           int exit_code);

}  // namespace msprobe::analysis
