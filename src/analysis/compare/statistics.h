// Metrics and verdicts of rows that have only statistics or checksums.
#pragma once

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// Differences and relative errors of Max, Min, Mean and Norm, and the verdict, for a matched pair.
void CompareStatistics(const SideRow& npu, const SideRow& bench, RowResult& result);

// The verdict on two checksums, for a matched pair.
void CompareChecksums(const SideRow& npu, const SideRow& bench, RowResult& result);

}  // namespace msprobe::analysis::compare
