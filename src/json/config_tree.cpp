#include "src/json/config_tree.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace msprobe::json::internal {

bool TreeBuilder::Fail(int line, std::string_view complaint) {
  if (status_.ok()) {
    status_ = BadFormatError(fmt::format("line {}: {}", line, complaint));
  }
  return false;
}

bool TreeBuilder::Count(size_t nodes, int line) {
  if (nodes > kConfigNodes - nodes_) {
    return Fail(line, fmt::format("more than {} values", kConfigNodes));
  }
  nodes_ += nodes;
  return true;
}

bool TreeBuilder::expects_key() const {
  return !open_.empty() && open_.back().value.kind == ConfigKind::kObject && !open_.back().has_key;
}

bool TreeBuilder::Add(ConfigValue value) {
  return !failed() && Count(1, value.line) && Place(std::move(value));
}

bool TreeBuilder::Place(ConfigValue value) {
  if (open_.empty()) {
    root_ = std::move(value);
    last_ = &root_;
    return true;
  }
  Level& parent = open_.back();
  if (parent.value.kind == ConfigKind::kList) {
    parent.value.items.push_back(std::move(value));
    last_ = &parent.value.items.back();
    return true;
  }
  if (parent.is_merge) {
    return PlaceMerged(parent, std::move(value));
  }
  value.key_kind = parent.key_kind;
  parent.value.members.emplace_back(std::move(parent.key), std::move(value));
  parent.key_lines.push_back(parent.key_line);
  parent.has_key = false;
  last_ = &parent.value.members.back().second;
  return true;
}

bool TreeBuilder::PlaceMerged(Level& level, ConfigValue value) {
  const int line = level.key_line;
  level.has_key = false;
  level.is_merge = false;
  std::vector<ConfigValue> objects;
  if (value.kind == ConfigKind::kList) {
    // Of several objects the first counts.
    objects.assign(std::make_move_iterator(value.items.rbegin()),
                   std::make_move_iterator(value.items.rend()));
  } else {
    objects.push_back(std::move(value));
  }
  for (ConfigValue& object : objects) {
    if (object.kind != ConfigKind::kObject) {
      return Fail(line, "the value of << must be a mapping");
    }
    level.merged.push_back(std::move(object));
  }
  last_ = nullptr;
  return true;
}

bool TreeBuilder::Begin(ConfigKind kind, int line, size_t end) {
  if (failed() || !Count(1, line)) {
    return false;
  }
  if (open_.size() >= static_cast<size_t>(kConfigDepth)) {
    return Fail(line, fmt::format("more than {} nested levels", kConfigDepth));
  }
  Level& level = open_.emplace_back();
  level.value.kind = kind;
  level.value.line = line;
  level.value.end = end;
  return true;
}

bool TreeBuilder::MergeKey(int line) {
  if (!Key("<<", line)) {
    return false;
  }
  open_.back().is_merge = true;
  return true;
}

void TreeBuilder::KeepLastMembers(Level& level) {
  std::vector<std::pair<std::string, ConfigValue>> kept;
  std::unordered_map<std::string, size_t> places;
  const auto take = [&](std::vector<std::pair<std::string, ConfigValue>>& members) {
    for (auto& [key, value] : members) {
      const auto [place, is_new] = places.emplace(key, kept.size());
      if (is_new) {
        kept.emplace_back(std::move(key), std::move(value));
      } else {
        kept[place->second].second = std::move(value);
      }
    }
  };
  for (ConfigValue& object : level.merged) {
    take(object.members);
  }
  take(level.value.members);
  level.value.members = std::move(kept);
}

bool TreeBuilder::Key(std::string key, int line, ConfigKind kind) {
  if (failed()) {
    return false;
  }
  Level& level = open_.back();
  level.key = std::move(key);
  level.key_line = line;
  level.key_kind = kind;
  level.has_key = true;
  return true;
}

bool TreeBuilder::CheckDuplicates(const Level& level) {
  const auto& members = level.value.members;
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&members](size_t left, size_t right) {
    return members[left].first < members[right].first;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    if (members[order[i]].first == members[order[i - 1]].first) {
      return Fail(level.key_lines[order[i]],
                  fmt::format("key \"{}\": already given on line {}", members[order[i]].first,
                              level.key_lines[order[i - 1]]));
    }
  }
  return true;
}

bool TreeBuilder::End() {
  if (failed()) {
    return false;
  }
  Level level = std::move(open_.back());
  open_.pop_back();
  if (use_ == TreeUse::kData) {
    KeepLastMembers(level);
  } else if (!CheckDuplicates(level)) {
    return false;
  }
  return Place(std::move(level.value));
}

}  // namespace msprobe::json::internal
