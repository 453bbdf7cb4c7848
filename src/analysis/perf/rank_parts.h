// The summaries of ranks that the processes of one launch compared, handed to the first of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/perf/result.h"
#include "src/base/processes.h"

namespace msprobe::analysis::perf {

// Hands on what this process found, in a folder below `output`.
Status DeliverRanks(const std::filesystem::path& output, const base::ProcessShare& share,
                    const RunSummary& summary);

// The ranks of all processes, by number; see base::CollectParts for `patience` and `late`. An error
// names a part that is damaged.
Result<std::vector<RankSummary>> CollectRanks(const std::filesystem::path& output,
                                              const base::ProcessShare& share,
                                              std::chrono::seconds patience,
                                              std::vector<size_t>& late);

}  // namespace msprobe::analysis::perf
