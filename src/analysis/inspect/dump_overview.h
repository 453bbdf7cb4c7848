// The overview of a dump folder.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/inspect/options.h"
#include "src/analysis/inspect/result.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::inspect {

// One row per rank of each step: what was captured, how much, and whether it is complete. Fails
// when no rank can be read.
Result<Contents> InspectDumpFolder(const Options& options, const dump::DumpLayout& layout);

}  // namespace msprobe::analysis::inspect
