#include "src/json/config_tree.h"

#include <algorithm>
#include <numeric>
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
  parent.value.members.emplace_back(std::move(parent.key), std::move(value));
  parent.key_lines.push_back(parent.key_line);
  parent.has_key = false;
  last_ = &parent.value.members.back().second;
  return true;
}

bool TreeBuilder::Begin(ConfigKind kind, int line) {
  if (failed() || !Count(1, line)) {
    return false;
  }
  if (open_.size() >= static_cast<size_t>(kConfigDepth)) {
    return Fail(line, fmt::format("more than {} nested levels", kConfigDepth));
  }
  Level& level = open_.emplace_back();
  level.value.kind = kind;
  level.value.line = line;
  return true;
}

bool TreeBuilder::Key(std::string key, int line) {
  if (failed()) {
    return false;
  }
  Level& level = open_.back();
  level.key = std::move(key);
  level.key_line = line;
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
  return CheckDuplicates(level) && Place(std::move(level.value));
}

}  // namespace msprobe::json::internal
