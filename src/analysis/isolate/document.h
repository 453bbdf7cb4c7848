// What an isolated run answers: the modules that are guilty themselves, the worst first.
#pragma once

#include <array>

#include "src/analysis/isolate/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::isolate {

inline constexpr std::array<report::GateLevel, 1> kGateLevels = {
    {{"guilty", "a module that computes wrong on the reference's own inputs"}}};

report::Document MakeDocument(const Verdicts& verdicts);

}  // namespace msprobe::analysis::isolate
