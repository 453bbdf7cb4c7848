// The overview of a dump folder.
#pragma once

#include "src/analysis/inspect/inspect.h"
#include "src/dump/layout.h"

namespace msprobe::analysis {

// One row per rank of each step: what was captured, how much, and whether it is complete. Fails
// when no rank can be read.
Result<InspectResult> InspectDumpFolder(const InspectOptions& options,
                                        const dump::DumpLayout& layout);

}  // namespace msprobe::analysis
