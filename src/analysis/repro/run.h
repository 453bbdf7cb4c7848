// A whole reproduction: from a dump and the name of a call to a folder that makes the call again.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/repro/options.h"
#include "src/analysis/repro/result.h"

namespace msprobe::analysis::repro {

// Writes README.md, run.py (PyTorch), recheck.sh and dump/ into the folder. kNotFound: no such
// call, with names that are like it. Memory: the tensors of the call, twice while minimising.
Result<Answer> Run(const Options& options);

}  // namespace msprobe::analysis::repro
