// What a comparison of two reinforcement learning runs answers.
#pragma once

#include <array>

#include "src/analysis/rl/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::rl {

inline constexpr std::array<report::GateLevel, 1> kGateLevels = {
    {{"different", "a difference, or an array without a partner"}}};

report::Document MakeDocument(const Comparison& comparison);

}  // namespace msprobe::analysis::rl
