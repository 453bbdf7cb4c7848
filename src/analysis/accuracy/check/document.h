// What a check of a dump's operators answers.
#pragma once

#include <array>
#include <string_view>

#include "src/analysis/accuracy/check/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::accuracy {

inline constexpr std::array<report::GateLevel, 3> kCheckGateLevels = {
    {{"error", "an operator whose outputs or gradients differ from the CPU's"},
     {"warning", "also one that differs a little"},
     {"skip", "also one that could not be run or judged"}}};
inline constexpr std::array<report::GateLevel, 3> kOverflowGateLevels = {
    {{"abnormal", "an operator that overflows on one side only"},
     {"any", "also one that overflows on both", true, true},
     {"skip", "also one that could not be run", true, true}}};

// `command`: under which name the check was asked for.
report::Document MakeDocument(const Check& check, std::string_view command);
report::Document MakeDocument(const OverflowCheck& check);

}  // namespace msprobe::analysis::accuracy
