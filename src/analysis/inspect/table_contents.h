// Tables beside dumps: statistics that a device, ATB or MindSpore wrote as .csv.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/inspect/options.h"
#include "src/analysis/inspect/result.h"

namespace msprobe::analysis::inspect {

// Rows and columns as they are.
Result<Contents> InspectTable(const Options& options);

}  // namespace msprobe::analysis::inspect
