// Which rows of the table are filled red or yellow, and why.
#pragma once

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// Sets `fill` and appends the reasons to `message`. Rows are judged by themselves and, within one
// call, each output against each input. Not for checksums and debug saves, which are never
// coloured.
void HighlightRows(const Side& npu, const Side& bench, PairResult& result);

}  // namespace msprobe::analysis::compare
