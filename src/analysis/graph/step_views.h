// From the dumps of a step to what its files hold: trees, matches, figures, partners across ranks.
#pragma once

#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/load.h"
#include "src/analysis/graph/options.h"
#include "src/analysis/graph/rank_view.h"
#include "src/base/thread_pool.h"

namespace msprobe::analysis::graph {

// One view per rank by the rules of `edition`; the views borrow from `step`.
Result<std::vector<RankView>> MakeViews(LoadedStep& step, Edition edition, const Options& options,
                                        base::ThreadPool& pool, std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::graph
