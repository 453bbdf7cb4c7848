// What is in a dump folder, a dump.json or a file of tensors, for `msprobe show`.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/inspect/options.h"
#include "src/analysis/inspect/result.h"

namespace msprobe::analysis::inspect {

// Fails only when nothing can be shown: kNotFound, kBadFormat, kUnsupported, kIo.
Result<Contents> Run(const Options& options);

}  // namespace msprobe::analysis::inspect
