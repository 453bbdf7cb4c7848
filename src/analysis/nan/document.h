// What a search for the first NaN or infinity answers; also as Markdown for a ticket.
#pragma once

#include <array>
#include <string>

#include "src/analysis/nan/nan.h"
#include "src/report/document.h"

namespace msprobe::analysis::nan {

inline constexpr std::array<report::GateLevel, 2> kGateLevels = {
    {{"origin", "an operator that made NaN or infinity from good inputs"},
     {"any", "also bad values that came from outside or were requested"}}};

// `with_levels`: the answer has them.
report::Document MakeDocument(const Answer& answer, bool with_levels);
std::string MarkdownAnswer(const Answer& answer);

}  // namespace msprobe::analysis::nan
