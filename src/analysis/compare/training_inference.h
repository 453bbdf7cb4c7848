// The same prompt through a trainer (FSDP, Megatron) and through an inference engine (vLLM,
// SGLang): modules are named otherwise, and projections that the trainer keeps apart are fused on
// the other side.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/analysis/compare/match.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

// Keeps the entries of a training dump that belong to a forward pass over the prompt: reading
// pauses at the first backward entry of the whole model (`strict`: of any module) and goes on at
// the next forward of an embedding. To be called once per entry in file order.
std::function<bool(std::string_view entry_name)> ForwardPassFilter(TrainingBackend backend,
                                                                   bool strict);

// Pairs the rows by layer, module, call and argument. Rows of the trainer (fsdp) or of the
// inference side (megatron) that stand for one row of the other become one row of `npu` or `bench`:
// texts joined, Max the largest, Min the smallest. Target order; bench rows alone stand where the
// bench has them and go to `result.shown_bench_only`.
// `for_workbook`: the joined names stand below each other in a cell.
Result<MatchResult> MatchTrainingWithInference(const V26Options& options, bool for_workbook,
                                               Side& npu, Side& bench, PairResult& result);

}  // namespace msprobe::analysis::compare
