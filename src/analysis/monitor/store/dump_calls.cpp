#include "src/analysis/monitor/store/dump_calls.h"

#include <algorithm>
#include <optional>
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
constexpr size_t kMostLevels = 1000;
constexpr int64_t kMostMicroSteps = 100'000;

// An entry's parent; empty for none. Some versions write a list of it and further facts.
std::string_view ParentAt(const ValueTree& tree, uint32_t node) {
  if (tree[node].kind == ValueKind::kList && tree[node].child_count > 0) {
    ++node;
  }
  return tree[node].kind == ValueKind::kText ? tree[node].text : std::string_view();
}

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
  std::unordered_map<std::string_view, std::string_view> parents;
  std::vector<std::string_view> entries;
  tree.ForEachChild(0, [&](uint32_t child) {
    if (parents.emplace(tree[child].key, ParentAt(tree, child)).second) {
      entries.push_back(tree[child].key);
    }
  });
  // Modules without a parent, by how often they were called. One that activation checkpointing runs
  // again has more calls than there are micro steps, so the fewest count.
  std::unordered_map<std::string_view, int64_t> models;
  for (const std::string_view entry : entries) {
    const dump::EntryName parts = dump::ParseEntryName(entry);
    if (parts.is_module && parts.call && *parts.call >= 0 && *parts.call < kMostMicroSteps &&
        parts.direction == dump::Direction::kForward && parents[entry].empty()) {
      int64_t& count = models[NameOfCalls(entry, parts)];
      count = std::max(count, *parts.call + 1);
    }
  }
  const auto fewest =
      std::min_element(models.begin(), models.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  calls.micro_step_count_ = fewest == models.end() ? 1 : fewest->second;
  int64_t latest = 0;  // also of what stands alone: entries come in the order of the calls
  for (const std::string_view entry : entries) {
    // Up to the root; a broken file may go round in a circle.
    std::string_view root = entry;
    for (size_t step = 0; step < kMostLevels; ++step) {
      const auto parent = parents.find(root);
      if (parent == parents.end() || parent->second.empty()) {
        break;
      }
      root = parent->second;
    }
    const dump::EntryName parts = dump::ParseEntryName(root);
    const auto model = models.find(NameOfCalls(root, parts));
    if (parts.call && model != models.end() && model->second == calls.micro_step_count_ &&
        *parts.call >= 0 && *parts.call < model->second) {
      latest = *parts.call;
    }
    calls.micro_steps_.emplace(entry, latest);
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
