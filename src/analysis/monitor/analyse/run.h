// Alerts of all ranks in the order in which they must have come about: the first are nearest to the
// cause.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/monitor/analyse/options.h"
#include "src/analysis/monitor/analyse/result.h"

namespace msprobe::analysis::monitor {

Result<AnalyseResult> RunAnalyse(const AnalyseOptions& options);

// The first `count` of `anomalies` in order; equals keep their order.
void SortAnomalies(std::vector<msprobe::monitor::Anomaly>& anomalies, size_t count,
                   AnomalyOrder order);

// "[1,3]", "1,3" or "[]".
Result<std::vector<int64_t>> ParseStepList(std::string_view text);

}  // namespace msprobe::analysis::monitor
