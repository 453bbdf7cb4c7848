// The answer of `monitor csv2tb`.
#pragma once

#include "src/analysis/monitor/csv2tb/result.h"
#include "src/report/document.h"

namespace msprobe::monitor_analysis {

report::Document MakeDocument(const Csv2TbResult& result);

}  // namespace msprobe::monitor_analysis
