// The page of `perf_compare --format html`: what the time of both sides consists of, and what grew
// as a tree down to kernels.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/perf/result.h"

namespace msprobe::analysis::perf {

struct PerfPage {
  std::filesystem::path path;
  std::vector<std::string> notes;  // what is not in it
};

// A new file in `folder`, named as the workbooks of the run with that `stamp` are. Of many ranks
// the one whose time grew most is taken apart; all are listed.
Result<PerfPage> WritePage(const std::filesystem::path& folder, const std::string& stamp,
                           const RunSummary& run);

}  // namespace msprobe::analysis::perf
