// The answer of `monitor analyse`.
#pragma once

#include <array>

#include "src/analysis/monitor/analyse/result.h"
#include "src/report/document.h"
#include "src/report/gate.h"

namespace msprobe::analysis::monitor {

inline constexpr std::array<report::GateLevel, 1> kAnalyseLevels = {
    {{"alert", "an alert of any rank, in the steps asked for"}}};

// Without alerts, but with files that could not be read as such, nothing is known: no gate passes.
report::Document MakeDocument(const AnalyseResult& result);

}  // namespace msprobe::analysis::monitor
