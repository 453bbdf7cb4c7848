// A run as test cases for CI systems, and what its gate levels ask about.
#pragma once

#include <vector>

#include "src/analysis/compare/summary.h"
#include "src/report/document.h"

namespace msprobe::analysis::compare {

// One case per pair; a pair fails when rows differ beyond noise and errs when it could not be
// compared. Differences that rounding explains fail on request only, as the level "drift" has it.
std::vector<report::TestCase> CasesOf(const RunSummary& summary);

// Every level is found where there is no pair, or one of which less than half of a side has a
// partner.
std::vector<report::LevelOutcome> LevelsOf(const RunSummary& summary);

}  // namespace msprobe::analysis::compare
