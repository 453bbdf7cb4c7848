// A whole comparison of the directions that two runs' gradients had, as the task grad_probe wrote
// them: from folders to one similarities.csv per rank.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/grad/options.h"
#include "src/analysis/grad/result.h"

namespace msprobe::analysis::grad {

// kNotFound where the runs have no rank with a step in common. Progress goes to stderr unless
// options.quiet.
Result<Comparison> Run(const Options& options);

}  // namespace msprobe::analysis::grad
