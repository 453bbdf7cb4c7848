// Operators of both sides: which of them are one, and the sheets OperatorCompare, MemoryCompare,
// ApiCompare and their statistics.
//
// The tops of the two trees are aligned by name (and shapes). Where both sides know the thread of
// their backward passes, they are cut first into stretches on and off that thread, and stretch is
// aligned with stretch: an operator of a forward pass is never paired with one of a backward pass.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/options.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::perf {

// Pairs of nodes of the two trees in the order in which sheets list them. Pairs with more than
// options.max_kernels kernels are replaced by their children, as deep as it goes. Without details
// nothing is paired. Warns where sequences were too long to be aligned exactly, and
// where not a single pair was found.
std::vector<AlignedPair> MatchOperators(const OperatorSide& base, const OperatorSide& comparison,
                                        const PairOptions& options,
                                        std::vector<std::string>& warnings);

// A row per pair of MatchOperators, in order.
report::FormattedTable OperatorDetails(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options);

// A row per operator name of the pairs, the largest growth first.
report::FormattedTable OperatorStatistic(const OperatorSide& base, const OperatorSide& comparison,
                                         std::span<const AlignedPair> pairs,
                                         const PairOptions& options);

// Sheets MemoryCompare and MemoryCompareStatistic: what operators allocated.

// A row per pair of MatchOperators, in order.
report::FormattedTable MemoryDetails(const OperatorSide& base, const OperatorSide& comparison,
                                     std::span<const AlignedPair> pairs,
                                     const PairOptions& options);

// A row per operator name of the pairs, the largest growth first.
report::FormattedTable MemoryStatistic(const OperatorSide& base, const OperatorSide& comparison,
                                       std::span<const AlignedPair> pairs,
                                       const PairOptions& options);

// Sheet ApiCompare: what calls took on the host.

// A row per name. No rows where a side has no operators; warns where that is for want of the step.
report::FormattedTable ApiCompare(const OperatorSide& base, const OperatorSide& comparison,
                                  const PairOptions& options, std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::perf
