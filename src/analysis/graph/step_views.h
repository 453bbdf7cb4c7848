// From the dumps of a step to what its files hold: trees, matches, figures, partners across ranks.
#pragma once

#include <optional>
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

struct StepPartners {
  std::optional<PartnerFinder> npu;  // none: nobody communicates
  std::optional<PartnerFinder> bench;
};
StepPartners PartnersOf(StepCommunications found, Edition edition);
void SetPartners(const StepPartners& partners, base::ThreadPool& pool,
                 std::vector<RankView>& views);

}  // namespace msprobe::analysis::graph
