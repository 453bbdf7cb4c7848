// The sheet OverallMetrics: what each side's time consists of, side by side.
#pragma once

#include "src/analysis/perf/options.h"
#include "src/analysis/perf/overall_times.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {

// Empty unless both end-to-end times are known.
report::FormattedTable OverallSheet(const OverallTimes& base, const OverallTimes& comparison,
                                    const PairOptions& options);

}  // namespace msprobe::analysis::perf
