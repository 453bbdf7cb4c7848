// The verdicts of v26: pass, warning or error per row, with reasons, judged call by call.
#pragma once

#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// Fills metrics and distance of a matched pair from its statistics: differences and relative
// errors, 0 for equal texts, and the words Nan, inf, -inf, N/A or Diff for what is not a number.
// The verdict is made call by call.
void CompareStatisticsV26(const SideRow& npu, const SideRow& bench, RowResult& result);

struct JudgeRules {
  // More than the Python tool finds: rows without partner, unreadable tensors, relative errors that
  // are infinite.
  bool strict = false;
  // Training against inference: requires_grad plays no part, fused projections may differ in dtype
  // and shape, axes of size 1 do not count.
  TrainingBackend backend = TrainingBackend::kNone;
  // Each side is split over ranks in its own way.
  bool ignore_shapes = false;
};

// Sets verdict (kPass, kWarning; an error is kNo, or kDifferent for checksums), fill (yellow, red)
// and message: a JSON list of texts that begin with "error: ", "warning: " or, where no verdict
// depends on it, "note: ". Rows of one call are consecutive.
void JudgeCalls(const Side& npu, const Side& bench, const JudgeRules& rules, PairResult& result);

}  // namespace msprobe::analysis::compare
