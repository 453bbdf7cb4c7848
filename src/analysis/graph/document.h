// What building or comparing graphs answers.
#pragma once

#include <array>

#include "src/analysis/graph/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::graph {

// Two chains, as of `compare`: what the rules of 26.x say of nodes, and what the walk says of the
// run.
inline constexpr std::array<report::GateLevel, 3> kGateLevels = {
    {{"error", "a matched node that is judged an error"},
     {"unmatched", "also nodes that only one side has"},
     {"different",
      "a divergence somewhere, or rows without partner; checksums: any bit that differs",
      /*includes_previous=*/false}}};

report::Document MakeDocument(const Answer& answer);

}  // namespace msprobe::analysis::graph
