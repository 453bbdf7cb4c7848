// Sheet ApiCompare: what calls took on the host.
#pragma once

#include <vector>

#include "src/analysis/perf/operator_groups.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/options.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {

// A row per name. No rows where a side has no operators; warns where that is for want of the step.
report::FormattedTable ApiCompare(const OperatorSide& base, const OperatorSide& comparison,
                                  const PairOptions& options, std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::perf
