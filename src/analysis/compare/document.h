// The answer of a comparison: verdict, first divergence, counts, next step.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "src/analysis/compare/compare.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/summary.h"
#include "src/report/document.h"

namespace msprobe::analysis::compare {

// A run as test cases for CI systems, and what its gate levels ask about.

// One case per pair; a pair fails when rows differ beyond noise and errs when it could not be
// compared. Differences that rounding explains fail on request only, as the level "drift" has it.
std::vector<report::TestCase> CasesOf(const RunSummary& summary);

// Every level is found where there is no pair, or one of which less than half of a side has a
// partner.
std::vector<report::LevelOutcome> LevelsOf(const RunSummary& summary);

// Two chains: what the table says about its rows, and what the walk says about the run.
inline constexpr std::array<report::GateLevel, 4> kGateLevels = {
    {{"error",
      "a divergence (DIFFERENT), a red row, or one whose verdict is No, Different or Unmatched",
      /*includes_previous=*/true, /*on_request=*/true},
     {"warning", "also a yellow row, a verdict Warning, or a rank without a partner",
      /*includes_previous=*/true, /*on_request=*/true},
     {"different",
      "a divergence (DIFFERENT), or rows without partner; checksums: any bit that differs",
      /*includes_previous=*/false},
     {"drift", "also accumulated rounding beyond the noise of the dtype",
      /*includes_previous=*/true, /*on_request=*/true}}};

// The parts of it that an answer of another command has, too.
report::Verdict MakeVerdict(const RunSummary& summary);
// For the leading pair; no blocks if no pair diverges.
report::Section MakeOrigins(const RunSummary& summary);
// What to do about it; of a run, about the pair to look at first.
report::Advice NextStep(const PairSummary& pair);
report::Advice NextStep(const RunSummary& summary);

report::Document MakeDocument(const RunSummary& summary);
// Also what the 26.x command line asks for, and the warnings of the run.
report::Document MakeDocument(const Options& options, const Comparison& run);

}  // namespace msprobe::analysis::compare
