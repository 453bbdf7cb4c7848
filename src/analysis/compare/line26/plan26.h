// Which dumps of two folders the 26.x line compares with each other.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pairing.h"

namespace msprobe::analysis::compare {

// As PlanPairs with Edition::k26; where both sides hold folders named graph or pynative (MindSpore
// programs of both kinds), every step below each, with results in <folder>/<step>.
Result<PairingPlan> PlanPairs26(const Options& options);

}  // namespace msprobe::analysis::compare
