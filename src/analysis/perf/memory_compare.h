// Sheets MemoryCompare and MemoryCompareStatistic: what operators allocated.
#pragma once

#include <span>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/options.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {

// A row per pair of MatchOperators, in order.
report::FormattedTable MemoryDetails(const OperatorSide& base, const OperatorSide& comparison,
                                     std::span<const AlignedPair> pairs,
                                     const PairOptions& options);

// A row per operator name of the pairs, the largest growth first.
report::FormattedTable MemoryStatistic(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options);

// What a node and everything below it allocated, in MB, and for how long altogether.
struct Allocated {
  double mb = 0;
  double ms = 0;
};
Allocated AllocatedBy(const OperatorSide& side, uint32_t node, std::vector<uint32_t>& queue);

}  // namespace msprobe::analysis::perf
