// From the dumps of a step to what its files hold: trees, matches, figures, partners across ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/communication.h"
#include "src/analysis/graph/load.h"
#include "src/analysis/graph/options.h"
#include "src/analysis/graph/rank_view.h"
#include "src/base/thread_pool.h"

namespace msprobe::analysis::graph {

// One view per rank by the rules of `edition`, without partners; the views borrow from `step`.
Result<std::vector<RankView>> MakeViews(LoadedStep& step, Edition edition, const Options& options,
                                        base::ThreadPool& pool, std::vector<std::string>& warnings);

// The communications of a step, by rank.
struct StepCommunications {
  std::vector<RankCommunications> npu;
  std::vector<RankCommunications> bench;
};
// With `with_levels` their figures are levels of overflow.
Status AddCommunications(const std::vector<RankView>& views, bool with_levels,
                         StepCommunications& found);

// By number of the rank.
struct StepPartners {
  std::map<int64_t, PartnersOfNodes> npu;
  std::map<int64_t, PartnersOfNodes> bench;
};
StepPartners PartnersOf(const StepCommunications& found, Edition edition);
// Hands those of the ranks that `views` show over.
void SetPartners(StepPartners& partners, std::vector<RankView>& views);

}  // namespace msprobe::analysis::graph
