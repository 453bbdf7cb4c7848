// What building or comparing graphs answers.
#pragma once

#include <array>

#include "src/analysis/graph/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::graph {

inline constexpr std::array<report::GateLevel, 2> kGateLevels = {
    {{"error", "a matched node that is judged an error"},
     {"unmatched", "also nodes that only one side has"}}};

report::Document MakeDocument(const Answer& answer);

}  // namespace msprobe::analysis::graph
