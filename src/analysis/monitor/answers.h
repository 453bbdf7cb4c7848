// What the monitor's commands answer, but for `diff`.
#pragma once

#include <array>
#include <filesystem>
#include <span>

#include "src/analysis/monitor/analyse.h"
#include "src/analysis/monitor/csv2tb.h"
#include "src/analysis/monitor/report_page.h"
#include "src/analysis/monitor/store_file.h"
#include "src/report/document.h"
#include "src/report/gate.h"

namespace msprobe::monitor {

inline constexpr std::array<report::GateLevel, 1> kAnalyseLevels = {
    {{"alert", "an alert of any rank, in the steps asked for"}}};
inline constexpr std::array<report::GateLevel, 2> kReportLevels = {
    {{"not_finite", "a NaN or an infinity in any table"}, {"alert", "also an alert of any rank"}}};

// Without alerts, but with files that could not be read as such, nothing is known: no gate passes.
report::Document MakeDocument(const AnalyseResult& result);
report::Document MakeDocument(const EventResult& result);
report::Document MakeDocument(const ReportOutcome& outcome, const std::filesystem::path& page);
// Of the tables of a run, of a dump, or both; at least one.
report::Document MakeDocument(std::span<const StoreResult> stores);

}  // namespace msprobe::monitor
