// A whole comparison of two reinforcement learning runs, as SingleSave stored them, key by key:
// from folders to result files.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/rl/options.h"
#include "src/analysis/rl/result.h"

namespace msprobe::analysis::rl {

// One file per key and format, and two more per key of tokens. Progress goes to stderr unless
// options.quiet.
Result<Comparison> Run(const Options& options);

}  // namespace msprobe::analysis::rl
