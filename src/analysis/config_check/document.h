// What config_check answers: of two packs, of what was collected, of settings in logs.
#pragma once

#include <array>

#include "src/analysis/config_check/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::config_check {

inline constexpr std::array<report::GateLevel, 2> kGateLevels = {
    {{"error", "a check that fails, or a setting that differs"},
     {"warning", "also a warning", /*includes_previous=*/true, /*on_request=*/true}}};

report::Document MakeDocument(const CompareRun& run);
report::Document MakeDocument(const CollectSummary& summary);
report::Document MakeDocument(const LogSettingsRun& run);

}  // namespace msprobe::analysis::config_check
