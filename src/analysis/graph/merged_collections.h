// Inside of the room: the calls between modules, of which every rank has its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/graph/merged_dump.h"

namespace msprobe::analysis::graph {

struct CollectedCall {
  std::string name;
  std::span<const std::string> stack;
  MergedContent content;
};

struct RankCollection {
  int64_t rank = 0;
  std::string number;  // "0" of "Apis_Between_Modules.0"
  std::vector<CollectedCall> calls;
};

// Takes the collections out of a rank's tree. With `keep_places` "Apis_Between_Modules_All_Ranks.0"
// stands where "Apis_Between_Modules.0" stood.
std::vector<RankCollection> DetachCollections(MergedModel& model, int64_t rank, bool keep_places);

// Puts those of all ranks into the merged tree: a collection of each rank below
// "Apis_Between_Modules_All_Ranks.<number>", calls of ranks other than `lead` with the rank in
// their names. What has no place yet comes last.
void AttachCollections(MergedModel& whole, std::vector<RankCollection> collections, int64_t lead);

// "Torch.matmul.0.forward" -> "Torch.matmul_rank1.0.forward"
std::string NameWithRank(std::string_view call, int64_t rank);

}  // namespace msprobe::analysis::graph
