// A whole comparison of two checkpoints: from paths to result files.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/ckpt/options.h"
#include "src/analysis/ckpt/result.h"

namespace msprobe::analysis::ckpt {

// Where and whether the result files can be written is checked before anything is read. Progress
// goes to stderr unless options.quiet.
Result<Comparison> Run(const Options& options);

}  // namespace msprobe::analysis::ckpt
