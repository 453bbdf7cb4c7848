// What a recheck answers.
#pragma once

#include <array>

#include "src/analysis/recheck/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::recheck {

inline constexpr std::array<report::GateLevel, 2> kGateLevels = {
    {{"beyond", "a call beyond its bound", false},
     {"unchecked", "a call that cannot be checked", false}}};

report::Document MakeDocument(const Answer& answer);

}  // namespace msprobe::analysis::recheck
