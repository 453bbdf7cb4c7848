// What the monitor's commands answer, but for `diff`.
#pragma once

#include <filesystem>
#include <span>

#include "src/analysis/monitor/analyse.h"
#include "src/analysis/monitor/csv2tb.h"
#include "src/analysis/monitor/report_page.h"
#include "src/analysis/monitor/store_file.h"
#include "src/report/document.h"

namespace msprobe::monitor {

report::Document MakeDocument(const AnalyseResult& result);
report::Document MakeDocument(const EventResult& result);
report::Document MakeDocument(const ReportOutcome& outcome, const std::filesystem::path& page);
// Of the tables of a run, of a dump, or both; at least one.
report::Document MakeDocument(std::span<const StoreResult> stores);

}  // namespace msprobe::monitor
