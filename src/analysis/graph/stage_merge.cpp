#include "src/analysis/graph/stage_merge.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/communication.h"
#include "src/analysis/graph/merged_collections.h"
#include "src/analysis/graph/node_names.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::graph {
namespace {

// "<before>.layers.<number>.<behind>"
struct LayerName {
  std::string_view before;
  std::string_view word;
  int64_t number = 0;
  std::string_view behind;
};

std::optional<LayerName> ParseLayer(std::string_view name) {
  for (const std::string_view word : {".layers.", ".layer."}) {
    const size_t at = name.find(word);
    if (at == std::string_view::npos) {
      continue;
    }
    const std::string_view rest = name.substr(at + word.size());
    LayerName layer = {name.substr(0, at), word, 0, {}};
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer.number);
    if (error == std::errc() && end != rest.data() + rest.size() && *end == '.') {
      layer.behind = rest.substr(static_cast<size_t>(end - rest.data()));
      return layer;
    }
  }
  return std::nullopt;
}

// "Module.1.layers..." -> 1: where a model is a list of parts, names begin with its place there.
std::optional<int64_t> ChunkOf(std::string_view name) {
  for (const std::string_view word : {"Module.", "Cell."}) {
    if (!name.starts_with(word)) {
      continue;
    }
    int64_t chunk = 0;
    const std::string_view rest = name.substr(word.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), chunk);
    if (error == std::errc() && end != rest.data() + rest.size() && *end == '.') {
      return chunk;
    }
  }
  return std::nullopt;
}

// The same name in the first part.
std::string InFirstChunk(std::string_view name) {
  if (!ChunkOf(name)) {
    return std::string(name);
  }
  const size_t begin = name.find('.') + 1;
  return fmt::format("{}0{}", name.substr(0, begin), name.substr(name.find('.', begin)));
}

class StageMerge {
 public:
  StageMerge(MergedModel& whole, const MergedModel& stage, const StagePlace& place)
      : whole_(whole), stage_(stage), place_(place) {}

  void Run() {
    MarkWanted();
    NumberLayers();
    target_.assign(stage_.graph.nodes.size(), kNone);
    target_[kRoot] = kRoot;
    for (const uint32_t node : stage_.graph.LevelOrder()) {
      if (node != kRoot && wanted_[node]) {
        Place(node);
      }
    }
    // All at once: there may be very many of them.
    for (const auto& [above, count] : inserted_in_front_) {
      std::vector<uint32_t>& children = whole_.graph.nodes[above].children;
      std::rotate(children.begin(), children.end() - static_cast<ptrdiff_t>(count), children.end());
    }
  }

 private:
  // Of a part: its modules, and all below them. What stands outside of all parts comes with the
  // first.
  void MarkWanted() {
    wanted_.assign(stage_.graph.nodes.size(), true);
    if (!place_.chunk) {
      return;
    }
    for (const uint32_t node : stage_.graph.LevelOrder()) {
      const Node& about = stage_.graph.nodes[node];
      const std::optional<int64_t> named = ChunkOf(about.name);
      const bool above = about.parent == kNone || about.parent == kRoot ? *place_.chunk == 0
                                                                        : wanted_[about.parent];
      wanted_[node] = named ? *named == *place_.chunk : above;
    }
  }

  // As the whole calls it, but for the number of its layer.
  std::string OwnName(const Node& node) const {
    return place_.chunk ? InFirstChunk(node.name) : std::string(node.name);
  }

  // Stages count their layers from 0: those of later stages are moved up. Layers that are numbered
  // through, or the same everywhere, keep their numbers.
  void NumberLayers() {
    std::map<std::string, std::set<int64_t>> earlier;
    for (const Node& node : whole_.graph.nodes) {
      if (const auto layer = ParseLayer(node.name)) {
        earlier[std::string(layer->before)].insert(layer->number);
      }
    }
    std::map<std::string, std::set<int64_t>> own;
    std::set<std::string> differing;
    for (uint32_t node = 0; node < stage_.graph.nodes.size(); ++node) {
      if (wanted_[node]) {
        own_names_.insert(OwnName(stage_.graph.nodes[node]));
      }
      const std::string name = OwnName(stage_.graph.nodes[node]);
      const auto layer = ParseLayer(name);
      if (!layer || !wanted_[node]) {
        continue;
      }
      own[std::string(layer->before)].insert(layer->number);
      const uint32_t same = whole_.graph.Find(name);
      if (same != kNone && !SameRows(same, node, "input.") && !SameRows(same, node, "output.")) {
        differing.insert(std::string(layer->before));
      }
    }
    for (const std::string& before : differing) {
      offsets_[before] = *earlier[before].rbegin() + 1 - *own[before].begin();
    }
  }

  bool SameRows(uint32_t whole, uint32_t stage, std::string_view part) const {
    const MergedContent& a = whole_.contents[whole];
    const MergedContent& b = stage_.contents[stage];
    if (a.entry == kNone || b.entry == kNone || a.RowCount() != b.RowCount()) {
      return a.entry == b.entry;
    }
    for (uint32_t row = 0; row < a.RowCount(); ++row) {
      if (a.ItemName(row).starts_with(part) && a.Row(row).is_tensor) {
        const Statistics x = a.StatisticsOf(row);
        const Statistics y = b.StatisticsOf(row);
        if (IsNumeric(x) && IsNumeric(y) && !SameStatistics(x, y)) {
          return false;
        }
      }
    }
    return true;
  }

  std::string NameOf(const Node& node) const {
    if (place_.is_first_rank && node.type != NodeType::kModule) {
      return std::string(node.name);
    }
    if (node.type != NodeType::kModule) {
      return NameWithRank(node.name, place_.rank);
    }
    const std::string own = OwnName(node);
    const auto layer = ParseLayer(own);
    const auto offset = layer ? offsets_.find(std::string(layer->before)) : offsets_.end();
    return offset == offsets_.end() ? own
                                    : fmt::format("{}{}{}{}", layer->before, layer->word,
                                                  layer->number + offset->second, layer->behind);
  }

  void Place(uint32_t index) {
    const Node& node = stage_.graph.nodes[index];
    const uint32_t above = target_[node.parent];
    // What stages send to each other joins them; of the first rank it is kept.
    const dump::CommunicationApi* api =
        IsCommunicationName(node.name) ? dump::FindCommunicationApi(ApiOf(node.name)) : nullptr;
    const bool is_join = !place_.is_first_rank && node.parent == kRoot && api != nullptr &&
                         api->kind != dump::CommunicationKind::kCollective;
    if (above == kNone || is_join) {
      return;
    }
    const std::string name = NameOf(node);
    uint32_t target = whole_.graph.Find(name);
    if (target == kNone) {
      target = whole_.graph.Add(name, node.type);
      whole_.graph.nodes[target].stack = node.stack;
      whole_.contents.push_back(stage_.contents[index]);
      whole_.contents.back().bare = !place_.is_first_rank;
      Insert(target, above);
    } else {
      TakeFromStage(target, index);
    }
    target_[index] = target;
  }

  // The backward pass begins with the last stage.
  void Insert(uint32_t node, uint32_t above) {
    whole_.graph.Attach(node, above);
    const bool backward =
        above != kRoot && whole_.graph.nodes[above].name.find(".backward.") != std::string::npos;
    if (backward && own_names_.contains(whole_.graph.nodes[above].name)) {
      ++inserted_in_front_[above];
    }
  }

  // Whether other modules are inside, so that it goes on from stage to stage.
  bool HoldsModules(uint32_t index) const {
    const std::vector<uint32_t>& children = stage_.graph.nodes[index].children;
    return std::any_of(children.begin(), children.end(), [this](uint32_t child) {
      return wanted_[child] && stage_.graph.nodes[child].type == NodeType::kModule;
    });
  }

  // A module around all stages: its input is the first stage's, its output the last one's. What it
  // is given within a later stage, if that was recorded, is a value in between.
  void TakeFromStage(uint32_t target, uint32_t index) {
    const std::string_view name = whole_.graph.nodes[target].name;
    const bool backward = name.find(".backward.") != std::string_view::npos;
    if (whole_.graph.nodes[target].type != NodeType::kModule ||
        stage_.contents[index].entry == kNone || whole_.contents[target].entry == kNone) {
      return;
    }
    const bool same_input = SameRows(target, index, "input.");
    const bool same_output = SameRows(target, index, "output.");
    const bool is_around = HoldsModules(index);
    if (!backward && !same_output && (same_input || is_around)) {
      whole_.contents[target].TakeFrom(stage_.contents[index], "output");
    } else if (backward && !same_input && (same_output || is_around)) {
      whole_.contents[target].TakeFrom(stage_.contents[index], "input");
    }
  }

  MergedModel& whole_;
  const MergedModel& stage_;
  const StagePlace place_;
  std::vector<bool> wanted_;                      // by node of the stage
  std::set<std::string, std::less<>> own_names_;  // of the nodes that are wanted
  std::map<std::string, int64_t> offsets_;        // by what stands in front of ".layers."
  std::vector<uint32_t> target_;                  // nodes of the whole, by those of the stage
  // Of a module of the backward pass: how many of its children, the last, come first in the end.
  std::map<uint32_t, size_t> inserted_in_front_;
};

}  // namespace

void MergeStage(MergedModel& whole, const MergedModel& stage, const StagePlace& place) {
  StageMerge(whole, stage, place).Run();
}

int64_t CountChunks(const MergedModel& model) {
  int64_t count = 0;
  for (const Node& node : model.graph.nodes) {
    count = std::max(count, ChunkOf(node.name).value_or(-1) + 1);
  }
  return count;
}

}  // namespace msprobe::analysis::graph
