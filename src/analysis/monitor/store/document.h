// The answer of `monitor csv2db` and of `data2db`.
#pragma once

#include <span>

#include "src/analysis/monitor/store/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::monitor {

// Of the tables of a run, of a dump, or both; at least one.
report::Document MakeDocument(std::span<const StoreResult> stores);

}  // namespace msprobe::analysis::monitor
