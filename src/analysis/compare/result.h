// What a whole comparison came to: the summary of its pairs, and what is to be said beside it. Rows
// of a single pair: pair_result.h.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/compare/summary.h"
#include "src/base/output_files.h"

namespace msprobe::analysis::compare {

struct Comparison {
  base::RunStamp stamp;  // in the names of all its files
  RunSummary summary;
  std::vector<std::string> warnings;
  std::vector<std::string> answers;          // of -da: one line per step
  std::vector<std::string> calls;            // of kernel dumps: the calls they belong to
  std::vector<std::string> log_lines;        // of -tensor_log
  std::vector<std::filesystem::path> files;  // of -da, beside those of the pairs
};

}  // namespace msprobe::analysis::compare
