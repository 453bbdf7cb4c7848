// Several ranks of each side as one pair: rows of the whole model, their statistics combined, their
// tensors read through the pieces, and what only the pieces can tell.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/layouts/plan.h"
#include "src/analysis/compare/options.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {
struct PlannedPair;
}

namespace msprobe::analysis::compare::layouts {

// Whether one side makes most of its calls a whole number of times as often: it takes the batch in
// as many parts.
bool HaveOtherMicroBatches(const Side& npu, const Side& bench);

// Loads all ranks of the pair, joins and compares them. `layout.npu_facts` gets the gradient
// factor.
Result<ComparedPair> CompareJoined(const Options& options, const PlannedPair& planned,
                                   PairLayout& layout, base::ThreadPool& pool,
                                   const StepRecord* previous);

}  // namespace msprobe::analysis::compare::layouts
