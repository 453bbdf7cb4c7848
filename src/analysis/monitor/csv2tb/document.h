// The answer of `monitor csv2tb`.
#pragma once

#include "src/analysis/monitor/csv2tb/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::monitor {

report::Document MakeDocument(const Csv2TbResult& result);

}  // namespace msprobe::analysis::monitor
