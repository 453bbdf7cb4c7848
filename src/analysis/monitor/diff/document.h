// What a comparison of two monitored runs answers.
#pragma once

#include <array>

#include "src/analysis/monitor/diff/result.h"
#include "src/report/document.h"
#include "src/report/gate.h"

namespace msprobe::analysis::monitor {

inline constexpr std::array<report::GateLevel, 1> kDiffLevels = {
    {{"different", "a step at which the runs diverge"}}};

report::Document MakeDocument(const DiffResult& result);

}  // namespace msprobe::analysis::monitor
