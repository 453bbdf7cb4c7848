// Sheets OperatorCompare and OperatorCompareStatistic: what operators took on the device.
#pragma once

#include <span>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/operator_groups.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/options.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {

// A row per pair of MatchOperators, in order.
report::FormattedTable OperatorDetails(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options);

// A row per operator name of the pairs, the largest growth first.
report::FormattedTable OperatorStatistic(const OperatorSide& base, const OperatorSide& comparison,
                                         std::span<const AlignedPair> pairs,
                                         const PairOptions& options);

// Milliseconds on the device of a node and everything below it.
double DeviceMs(const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue);

}  // namespace msprobe::analysis::perf
