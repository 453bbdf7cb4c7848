#include "src/analysis/recheck/step_ranks.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/names.h"

namespace msprobe::analysis::recheck {
namespace {

// The ranks below the key "group_ranks", wherever it stands.
std::vector<int64_t> GroupOf(const dump::EntryTree& tree) {
  std::vector<int64_t> ranks;
  for (uint32_t index = 0; index < tree.size(); ++index) {
    if (tree[index].key == "group_ranks" && tree[index].kind == dump::NodeKind::kList) {
      tree.ForEachChild(index, [&](uint32_t rank) { ranks.push_back(tree[rank].integer); });
      return ranks;
    }
  }
  return ranks;
}

}  // namespace

Result<StepRanks::Rank*> StepRanks::Open(int64_t rank) {
  const auto file = files_.find(rank);
  if (file == files_.end()) {
    return NotFoundError(fmt::format("rank {} of its group is not in the dump", rank));
  }
  std::optional<Rank>& opened = ranks_[rank];
  if (!opened) {
    MSP_ASSIGN_OR_RETURN(DumpEntries entries, DumpEntries::Open(file->second));
    opened.emplace(Rank{std::move(entries), {}});
  }
  return &*opened;
}

Result<const StepRanks::CallsOfApi*> StepRanks::CallsOf(Rank& rank, std::string_view api) {
  const auto known = rank.calls.find(api);
  if (known != rank.calls.end()) {
    return &known->second;
  }
  CallsOfApi calls;
  std::map<Group, int64_t> counts;
  for (const std::string& name : rank.entries.calls()) {
    const dump::EntryName parsed = dump::ParseEntryName(name);
    if (parsed.kind == "Distributed" && parsed.subject == api &&
        parsed.direction == dump::Direction::kForward) {
      MSP_ASSIGN_OR_RETURN(const dump::EntryTree tree, rank.entries.Read(name), name);
      Group group = GroupOf(tree);
      const int64_t number = counts[group]++;
      const Place place = {std::move(group), number};
      calls.names.emplace(place, name);
      calls.places.emplace(name, place);
    }
  }
  return &rank.calls.emplace(std::string(api), std::move(calls)).first->second;
}

Result<PeerCalls> StepRanks::PeersOf(int64_t rank, std::string_view name) {
  const std::string_view api = dump::ParseEntryName(name).subject;
  MSP_ASSIGN_OR_RETURN(Rank * own, Open(rank));
  MSP_ASSIGN_OR_RETURN(const CallsOfApi* calls, CallsOf(*own, api));
  const auto call = calls->places.find(name);
  if (call == calls->places.end()) {
    return NotFoundError("the call is not in its own dump");
  }
  const Place& place = call->second;
  const Group& group = place.first;
  if (std::set<int64_t>(group.begin(), group.end()).size() != group.size()) {
    return BadFormatError("a rank stands twice in its group");
  }
  Group ranks = group;
  if (ranks.empty()) {  // the group of all ranks
    for (const auto& [other, file] : files_) {
      ranks.push_back(other);
    }
  }
  PeerCalls peers;
  peers.group_is_told = !group.empty();
  for (const int64_t other : ranks) {
    MSP_ASSIGN_OR_RETURN(Rank * peer, Open(other));
    MSP_ASSIGN_OR_RETURN(const CallsOfApi* its_calls, CallsOf(*peer, api));
    const auto partner = its_calls->names.find(place);
    if (partner == its_calls->names.end()) {
      return NotFoundError(fmt::format("rank {} of its group did not record this call", other));
    }
    if (other == rank) {
      peers.own = peers.trees.size();
    }
    MSP_ASSIGN_OR_RETURN(dump::EntryTree tree, peer->entries.Read(partner->second),
                         partner->second);
    peers.trees.push_back(std::move(tree));
    peers.ranks.push_back(other);
    peers.tensors.push_back(TensorsOf(peer->entries.tensor_folder()));
  }
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
    return NotFoundError("the rank is none of its group");
  }
  return peers;
}

}  // namespace msprobe::analysis::recheck
