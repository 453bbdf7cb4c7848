// One table per metric over the comparison results of many ranks: how a collective call went on
// each of them.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/compare/merge/options.h"
#include "src/analysis/compare/merge/result.h"

namespace msprobe::analysis::compare::merge {

// Reads the ranks' results and writes multi_ranks_compare_merge_<stamp>.xlsx. A file that does not
// fit the others (other mode, metric missing, checksums) is a warning; fewer than two that fit are
// an error and write nothing.
Result<Summary> Run(const Options& options);

}  // namespace msprobe::analysis::compare::merge
