// The table that a terminal shows first: one line per side, what its time consists of.
#pragma once

#include <string>

#include "src/analysis/perf/perf.h"

namespace msprobe::analysis::perf {

// Columns that are zero on both sides are left out. Ends with a line feed.
std::string ScreenTable(const Comparison& comparison);

}  // namespace msprobe::analysis::perf
