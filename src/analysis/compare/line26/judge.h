// The verdicts of the 26.x line: pass, warning or error per row, with reasons, judged call by call.
#pragma once

#include <string_view>

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

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
// hangs on it, "note: ". Rows of one call stand together.
void JudgeCalls(const Side& npu, const Side& bench, const JudgeRules& rules, PairResult& result);

// "pass", "warning", "error".
std::string_view ResultWord(Verdict verdict);

}  // namespace msprobe::analysis::compare
