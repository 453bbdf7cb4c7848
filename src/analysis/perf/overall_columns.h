// What the time of both sides consists of, a row per side: the table that the Python tool prints.
#pragma once

#include "src/analysis/perf/pair_comparison.h"
#include "src/report/table.h"

namespace msprobe::analysis::perf {

// Columns that are zero on both sides are left out.
report::Table OverallColumns(const PairComparison& comparison);

}  // namespace msprobe::analysis::perf
