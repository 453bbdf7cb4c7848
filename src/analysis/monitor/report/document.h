// The answer of `monitor report`, beside its page.
#pragma once

#include <array>
#include <filesystem>

#include "src/analysis/monitor/report/result.h"
#include "src/report/document.h"
#include "src/report/gate.h"

namespace msprobe::analysis::monitor {

inline constexpr std::array<report::GateLevel, 2> kReportLevels = {
    {{"not_finite", "a NaN or an infinity in any table"}, {"alert", "also an alert of any rank"}}};

report::Document MakeDocument(const ReportResult& outcome, const std::filesystem::path& page);

}  // namespace msprobe::analysis::monitor
