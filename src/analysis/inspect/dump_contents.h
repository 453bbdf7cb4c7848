// Rows for the entries of one dump.json or debug.json.
#pragma once

#include "src/analysis/inspect/inspect.h"

namespace msprobe::analysis {

// One row per tensor or scalar argument. With options.statistics those of a row's tensor file
// replace the recorded ones, and NaN, Inf and zeros are counted.
Result<InspectResult> InspectDumpFile(const InspectOptions& options);

}  // namespace msprobe::analysis
