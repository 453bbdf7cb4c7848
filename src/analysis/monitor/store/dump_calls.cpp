#include "src/analysis/monitor/store/dump_calls.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::monitor {
namespace {

using json::ValueKind;
using json::ValueTree;

constexpr uint64_t kLimitBytes = uint64_t{256} << 20U;
// More calls of the whole model within one step are a broken file; steps are reserved for each.
constexpr int64_t kMostMicroSteps = 100'000;

// An entry's parent; empty for none. Some versions write a list of it and further facts.
std::string_view ParentAt(const ValueTree& tree, uint32_t node) {
  if (tree[node].kind == ValueKind::kList && tree[node].child_count > 0) {
    ++node;
  }
  return tree[node].kind == ValueKind::kText ? tree[node].text : std::string_view();
}

// The names of construct.json by number, so that a long one is looked at once, not at every place
// that it stands above.
class ParentTree {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Of the same name twice the first counts.
  void Add(std::string_view entry, std::string_view parent) {
    const uint32_t number = NumberOf(entry);
    if (nodes_[number].is_entry) {
      return;
    }
    nodes_[number].is_entry = true;
    entries_.push_back(number);
    const uint32_t above = parent.empty() ? kNone : NumberOf(parent);
    nodes_[number].parent = above;
  }

  // Each root at once. A broken file may go round in a circle: then its root is one of it.
  void FindRoots() {
    std::vector<uint32_t> path;
    for (uint32_t number = 0; number < nodes_.size(); ++number) {
      uint32_t at = number;
      while (nodes_[at].root == kNone && !nodes_[at].on_path && nodes_[at].parent != kNone) {
        nodes_[at].on_path = true;
        path.push_back(at);
        at = nodes_[at].parent;
      }
      const uint32_t root = nodes_[at].root != kNone ? nodes_[at].root : at;
      nodes_[at].root = root;
      for (const uint32_t below : path) {
        nodes_[below].root = root;
        nodes_[below].on_path = false;
      }
      path.clear();
    }
  }

  const std::vector<uint32_t>& entries() const { return entries_; }  // in the order of the file
  size_t size() const { return nodes_.size(); }
  std::string_view name(uint32_t number) const { return nodes_[number].name; }
  bool has_parent(uint32_t number) const { return nodes_[number].parent != kNone; }
  uint32_t root(uint32_t number) const { return nodes_[number].root; }

 private:
  struct Named {
    std::string_view name;
    uint32_t parent = kNone;
    uint32_t root = kNone;
    bool is_entry = false;
    bool on_path = false;
  };

  uint32_t NumberOf(std::string_view name) {
    const auto [found, is_new] =
        number_of_name_.try_emplace(name, static_cast<uint32_t>(nodes_.size()));
    if (is_new) {
      nodes_.push_back({name});
    }
    return found->second;
  }

  std::vector<Named> nodes_;
  std::vector<uint32_t> entries_;
  std::unordered_map<std::string_view, uint32_t> number_of_name_;
};

}  // namespace

std::string_view NameOfCalls(std::string_view entry, const dump::EntryName& parts) {
  constexpr std::string_view kGradients = ".parameters_grad";
  if (parts.is_parameters_grad) {
    return entry.substr(0, entry.rfind(kGradients));
  }
  if (!parts.call || parts.direction == dump::Direction::kNone) {
    return entry;
  }
  const std::string_view direction =
      parts.direction == dump::Direction::kForward ? "forward" : "backward";
  const std::string ending = parts.is_module ? fmt::format(".{}.{}", direction, *parts.call)
                                             : fmt::format(".{}.{}", *parts.call, direction);
  return entry.ends_with(ending) ? entry.substr(0, entry.size() - ending.size()) : entry;
}

DumpCalls DumpCalls::Read(const std::filesystem::path& construct_file) {
  DumpCalls calls;
  const Result<std::string> text = base::ReadTextFile(construct_file, kLimitBytes);
  if (!text.ok()) {
    return calls;
  }
  const Result<ValueTree> parsed = json::ParseValueTree(*text);
  if (!parsed.ok() || (*parsed)[0].kind != ValueKind::kObject) {
    return calls;
  }
  const ValueTree& tree = *parsed;
  ParentTree parents;
  tree.ForEachChild(0,
                    [&](uint32_t child) { parents.Add(tree[child].key, ParentAt(tree, child)); });
  parents.FindRoots();
  // Modules without a parent, by how often they were called. One that activation checkpointing runs
  // again has more calls than there are micro steps, so the fewest count.
  std::unordered_map<std::string_view, int64_t> models;
  for (const uint32_t number : parents.entries()) {
    const std::string_view entry = parents.name(number);
    const dump::EntryName parts = dump::ParseEntryName(entry);
    if (parts.is_module && parts.call && *parts.call >= 0 && *parts.call < kMostMicroSteps &&
        parts.direction == dump::Direction::kForward && !parents.has_parent(number)) {
      int64_t& count = models[NameOfCalls(entry, parts)];
      count = std::max(count, *parts.call + 1);
    }
  }
  const auto fewest =
      std::min_element(models.begin(), models.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  calls.micro_step_count_ = fewest == models.end() ? 1 : fewest->second;
  int64_t latest = 0;  // also of what stands alone: entries come in the order of the calls
  // The micro step that a root tells, of those that were asked for.
  constexpr int64_t kNotAsked = -2;
  constexpr int64_t kTellsNone = -1;
  std::vector<int64_t> of_root(parents.size(), kNotAsked);
  for (const uint32_t number : parents.entries()) {
    const uint32_t root = parents.root(number);
    if (of_root[root] == kNotAsked) {
      const dump::EntryName parts = dump::ParseEntryName(parents.name(root));
      const auto model = models.find(NameOfCalls(parents.name(root), parts));
      const bool tells = parts.call && model != models.end() &&
                         model->second == calls.micro_step_count_ && *parts.call >= 0 &&
                         *parts.call < model->second;
      of_root[root] = tells ? *parts.call : kTellsNone;
    }
    latest = of_root[root] == kTellsNone ? latest : of_root[root];
    calls.micro_steps_.emplace(parents.name(number), latest);
  }
  for (const auto& [entry, micro_step] : calls.micro_steps_) {
    const dump::EntryName parts = dump::ParseEntryName(entry);
    if (parts.call) {
      const std::pair key(std::string(NameOfCalls(entry, parts)), micro_step);
      const auto [place, added] = calls.first_calls_.emplace(key, *parts.call);
      place->second = std::min(place->second, *parts.call);
    }
  }
  return calls;
}

int64_t DumpCalls::MicroStepOf(std::string_view entry) {
  const auto known = micro_steps_.find(std::string(entry));
  latest_ = known == micro_steps_.end() ? latest_ : known->second;
  return latest_;
}

int64_t DumpCalls::IndexInMicroStep(std::string_view name, int64_t micro_step, int64_t call) const {
  const auto first = first_calls_.find(std::pair(std::string(name), micro_step));
  return first == first_calls_.end() ? call : std::max<int64_t>(call - first->second, 0);
}

}  // namespace msprobe::analysis::monitor
