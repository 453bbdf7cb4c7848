// Sheets ModuleCompare and ModuleCompareStatistic: what modules took on the device, and which of
// their operators did.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/module_match.h"
#include "src/analysis/perf/module_side.h"
#include "src/analysis/perf/options.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {

// For each pair of MatchModules its sums, then its operators aligned by name. Warns where nothing
// was recorded that could stand in the columns for operators' call stacks.
report::FormattedTable ModuleDetails(const ModuleSide& base, const ModuleSide& comparison,
                                     std::span<const AlignedPair> pairs, const PairOptions& options,
                                     std::vector<std::string>& warnings);

// For each path its sums over all modules of that path, then its operators by name.
report::FormattedTable ModuleStatistic(const ModuleSide& base, const ModuleSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options);

}  // namespace msprobe::analysis::perf
