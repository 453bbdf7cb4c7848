// Which ranks share a model, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/options.h"
#include "src/analysis/graph/model.h"

namespace msprobe::analysis::graph {

// Numbers of ranks: by group, then place in it. Every rank is in one group of each kind; where a
// kind is not used, alone.
struct RankGroups {
  std::vector<std::vector<int64_t>> pipeline;  // from the first stage on
  std::vector<std::vector<int64_t>> tensor;
  std::vector<std::vector<int64_t>> context;
  // Expert parallelism: ranks that exchange tokens inside of MoE modules have other experts each.
  // Groups of two ranks and more; nothing is merged by them.
  std::vector<std::vector<int64_t>> expert;

  // Whether two ranks of one of these groups have other experts. Not every stage of a pipeline has
  // experts: ask of all groups.
  bool HaveOtherExperts(const std::vector<std::vector<int64_t>>& joined) const;
};

// kUsage when the sizes contradict each other or the number of ranks.
Status CheckParallelism(const Parallelism& sizes, size_t rank_folders);

// What the recorded calls tell comes first: ranks whose first reduction is one, ranks that send to
// each other between modules, ranks that exchange values inside of attention modules. Where that
// does not make groups of the sizes asked for, `sizes.order` says it. Warnings tell of groups that
// are not those of the order, and of context and expert parallelism that nobody asked for. `dumps`:
// one per rank, at least one; their SetPlaces is done.
RankGroups FindRankGroups(const std::vector<RankDump>& dumps, const Parallelism& sizes,
                          std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::graph
