// What a comparison of two accuracy checks answers.
#pragma once

#include <array>

#include "src/analysis/accuracy/precision_compare/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::accuracy {

inline constexpr std::array<report::GateLevel, 2> kPrecisionGateLevels = {
    {{"error", "an operator that is less accurate than its standard allows"},
     {"skip", "also an operator that could not be judged"}}};

report::Document MakeDocument(const PrecisionComparison& comparison);

}  // namespace msprobe::analysis::accuracy
