#include "src/analysis/graph/merged_collections.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/node_names.h"

namespace msprobe::analysis::graph {
namespace {

// The node of that name below `above`, made if it is not there.
uint32_t CollectionOf(MergedModel& model, const std::string& name, uint32_t above) {
  uint32_t node = model.graph.Find(name);
  if (node == kNone) {
    node = model.graph.Add(name, NodeType::kCollection);
    model.contents.emplace_back();
    model.graph.Attach(node, above);
  }
  return node;
}

std::string AllRanksName(std::string_view number) {
  return fmt::format("{}_All_Ranks.{}", kCollectionName, number);
}

}  // namespace

std::string NameWithRank(std::string_view call, int64_t rank) {
  const size_t first = call.find('.');
  const size_t second = first == call.npos ? first : call.find('.', first + 1);
  const size_t at = std::min(second, call.size());
  return fmt::format("{}_rank{}{}", call.substr(0, at), rank, call.substr(at));
}

std::vector<RankCollection> DetachCollections(MergedModel& model, int64_t rank, bool keep_places) {
  std::vector<RankCollection> found;
  const std::vector<uint32_t> children = model.graph.nodes[kRoot].children;
  std::vector<uint32_t> kept;
  for (const uint32_t child : children) {
    if (model.graph.nodes[child].type != NodeType::kCollection) {
      kept.push_back(child);
      continue;
    }
    RankCollection& collection = found.emplace_back();
    const std::string_view name = model.graph.nodes[child].name;
    collection.rank = rank;
    collection.number = name.substr(name.rfind('.') + 1);
    for (const uint32_t call : model.graph.nodes[child].children) {
      const Node& node = model.graph.nodes[call];
      collection.calls.push_back({std::string(node.name), node.stack, model.contents[call]});
    }
    if (keep_places) {
      const uint32_t place =
          model.graph.Add(AllRanksName(collection.number), NodeType::kCollection);
      model.graph.nodes[place].parent = kRoot;
      model.contents.emplace_back();
      kept.push_back(place);
    }
  }
  model.graph.nodes[kRoot].children = std::move(kept);
  return found;
}

void AttachCollections(MergedModel& whole, std::vector<RankCollection> collections, int64_t lead) {
  std::stable_sort(collections.begin(), collections.end(),
                   [](const auto& a, const auto& b) { return a.rank < b.rank; });
  for (RankCollection& collection : collections) {
    const uint32_t all = CollectionOf(whole, AllRanksName(collection.number), kRoot);
    const uint32_t own = CollectionOf(
        whole, fmt::format("{}_Rank{}.{}", kCollectionName, collection.rank, collection.number),
        all);
    for (CollectedCall& call : collection.calls) {
      const std::string name =
          collection.rank == lead ? call.name : NameWithRank(call.name, collection.rank);
      uint32_t node = whole.graph.Find(name);
      if (node == kNone) {
        node = whole.graph.Add(name, NodeType::kApi);
        whole.contents.emplace_back();
      }
      whole.graph.nodes[node].stack = call.stack;
      whole.contents[node] = std::move(call.content);
      whole.contents[node].bare = collection.rank != lead;
      whole.graph.Attach(node, own);
    }
  }
}

}  // namespace msprobe::analysis::graph
