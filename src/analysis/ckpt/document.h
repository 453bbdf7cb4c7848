// What a comparison of two checkpoints answers.
#pragma once

#include <array>

#include "src/analysis/ckpt/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::ckpt {

inline constexpr std::array<report::GateLevel, 4> kGateLevels = {
    {{"error", "a pair of different shapes, or NaN or infinity on one side only"},
     {"missing", "also a parameter that only one checkpoint has"},
     {"different", "also a pair of different values (see --rtol, --atol)"},
     {"nan", "also NaN or infinity on both sides", /*includes_previous=*/true,
      /*on_request=*/true}}};

report::Document MakeDocument(const Comparison& comparison);

}  // namespace msprobe::analysis::ckpt
