// What a comparison of two runs' gradient directions answers.
#pragma once

#include <array>

#include "src/analysis/grad/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::grad {

inline constexpr std::array<report::GateLevel, 2> kGateLevels = {
    {{"diverged", "a step where too few signs of all parameters together agree"},
     {"parameter",
      "a step where too few signs of one parameter agree, or a gradient that could "
      "not be compared"}}};

report::Document MakeDocument(const Comparison& comparison);

}  // namespace msprobe::analysis::grad
