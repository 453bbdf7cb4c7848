// Differences and relative errors of the statistics of a matched pair, by the rules of the 26.x
// line.
#pragma once

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// Equal texts give 0; what is no number gives the words Nan, inf, -inf, N/A or Diff. Fills metrics
// and distance; the verdict is made call by call (judge.h).
void CompareStatistics26(const SideRow& npu, const SideRow& bench, RowResult& result);

}  // namespace msprobe::analysis::compare
