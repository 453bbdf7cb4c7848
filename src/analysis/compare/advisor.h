// The advisor's text file: the first row that failed, and what to do about it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "src/analysis/compare/divergence.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// The first row in table order whose verdict is a failure of its mode.
std::optional<size_t> FirstFailingRow(const PairResult& result);

// Three lines: "Line: <row or NA>", "Suspect Nodes: <name or NA>", "Expert Advice: ...". The row is
// the first that fails its threshold, as the Python tool has it. The advice names the first
// divergence, too, where there is one.
std::string AdvisorText(const Side& npu, const Side& bench, const PairResult& result,
                        const DivergenceReport& divergence);

}  // namespace msprobe::analysis::compare
