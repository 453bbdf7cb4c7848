// What a search for anomalous responses answers.
#pragma once

#include <array>

#include "src/analysis/response_anomaly/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::response_anomaly {

inline constexpr std::array<report::GateLevel, 5> kGateLevels = {
    {{"not_finite", "a log-probability that is NaN or infinite", false},
     {"garbled", "a garbled response", false},
     {"repetition", "a response that repeats itself", false},
     {"rare_characters", "a response with rare characters", false},
     {"ill", "any of these"}}};

report::Document MakeDocument(const Findings& findings);

}  // namespace msprobe::analysis::response_anomaly
