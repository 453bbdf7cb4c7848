// From the dumps of a step to what its files hold: trees, matches, figures, partners across ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/communication.h"
#include "src/analysis/graph/load.h"
#include "src/analysis/graph/options.h"
#include "src/analysis/graph/rank_view.h"
#include "src/base/threads.h"

namespace msprobe::analysis::graph {

// Work of others that any thread can do beside the making of trees: run(item), each item once.
struct WorkBeside {
  size_t count = 0;
  std::function<void(size_t item)> run;
};

// One view per rank by the rules of `edition`, without partners; the views borrow from `step`. The
// sides stay as they are until `beside`, which may take what the views tell of, is done.
Result<std::vector<RankView>> MakeViews(LoadedStep& step, Edition edition, const Options& options,
                                        const WorkBeside& beside, base::ThreadPool& pool,
                                        std::vector<std::string>& warnings);

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
