// Rows for the entries of one dump.json or debug.json.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/inspect/options.h"
#include "src/analysis/inspect/result.h"

namespace msprobe::analysis::inspect {

// One row per tensor or scalar argument. With options.statistics those of a row's tensor file
// replace the recorded ones, and NaN, Inf and zeros are counted.
Result<Contents> InspectDumpFile(const Options& options);

}  // namespace msprobe::analysis::inspect
