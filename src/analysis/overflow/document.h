// What a search for overflows answers.
#pragma once

#include <array>
#include <string>

#include "src/analysis/overflow/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::overflow {

inline constexpr std::array<report::GateLevel, 1> kGateLevels = {
    {{"overflow", "an operator that overflowed"}}};

report::Document MakeDocument(const Findings& findings);

// One line about an overflow: "Mul (sharpen) on stream 2, task 14, in Torch.mul.0.forward
// (route.py:17 in forward: ...)".
std::string Sentence(const Overflow& overflow);

}  // namespace msprobe::analysis::overflow
