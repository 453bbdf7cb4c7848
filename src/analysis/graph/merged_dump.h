// A dump made of several ranks, in memory and as files.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/merge.h"
#include "src/analysis/graph/model.h"

namespace msprobe::analysis::graph {

using Statistics = std::array<compare::StatValue, compare::kStatCount>;

// Whether all of them are numbers.
bool IsNumeric(const Statistics& stats);
// Equal, but for what another order of adding up makes of Mean and Norm.
bool SameStatistics(const Statistics& a, const Statistics& b);

// The values of one node: an entry of one rank, with some statistics changed.
struct MergedContent {
  const RankDump* dump = nullptr;
  uint32_t entry = kNone;
  int64_t rank = 0;                        // that recorded it
  std::map<uint32_t, Statistics> changed;  // by row of the entry
  std::vector<std::string> info;           // how they were made
  // For rows that the latest merge made of several: the shapes of all parts.
  std::map<uint32_t, std::vector<std::string_view>> part_shapes;
  std::map<uint32_t, std::vector<int64_t>> shapes;  // of the whole, by row, where that is known
  // From a later rank of a pipeline: the 26.x line exports its inputs and outputs only.
  bool bare = false;
  // The part of another rank's entry, by member of the entry: "output".
  std::map<std::string, std::pair<const RankDump*, uint32_t>> parts;
  std::map<uint32_t, const compare::SideRow*> taken;  // rows of those parts, by row here

  uint32_t RowCount() const { return dump->side().entries[entry].row_count; }
  const compare::SideRow& Row(uint32_t row) const;
  // The same, or the row that replaced it in TakeFrom.
  const compare::SideRow& Source(uint32_t row) const;
  std::string_view ItemName(uint32_t row) const;  // "input.0", "parameters.weight"
  Statistics StatisticsOf(uint32_t row) const;
  std::optional<uint32_t> RowOf(std::string_view item) const;
  std::optional<Statistics> Find(std::string_view item) const;
  // That part is written as it is in `other` from now on; rows here of the same name have its
  // statistics.
  void TakeFrom(const MergedContent& other, const std::string& part);
};

struct MergedModel {
  Graph graph;
  std::vector<MergedContent> contents;  // by node

  static MergedModel Of(const RankDump& dump, int64_t rank, std::vector<std::string>& warnings);
};

// dump.json, construct.json and stack.json, nodes in post-order.
Status WriteMergedDump(const MergedModel& model, MergedFor purpose,
                       const std::filesystem::path& folder);

// The calls between modules, of which every rank has its own.

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
// replaces "Apis_Between_Modules.0".
std::vector<RankCollection> DetachCollections(MergedModel& model, int64_t rank, bool keep_places);

// Puts those of all ranks into the merged tree: a collection of each rank below
// "Apis_Between_Modules_All_Ranks.<number>", calls of ranks other than `lead` with the rank in
// their names. What has no place yet comes last.
void AttachCollections(MergedModel& whole, std::vector<RankCollection> collections, int64_t lead);

// "Torch.matmul.0.forward" -> "Torch.matmul_rank1.0.forward"
std::string NameWithRank(std::string_view call, int64_t rank);

}  // namespace msprobe::analysis::graph
