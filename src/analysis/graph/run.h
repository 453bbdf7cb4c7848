// The whole of `graph`: from the folders of dumps to the files of their graphs.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/graph/options.h"
#include "src/analysis/graph/result.h"

namespace msprobe::analysis::graph {

// A rank that cannot be read is a warning as long as another one of its step can be.
Result<Answer> Run(const Options& options);

}  // namespace msprobe::analysis::graph
