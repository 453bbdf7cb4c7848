#include "src/dump/leaves.h"

#include <fmt/format.h>

#include "src/dump/names.h"

namespace msprobe::dump {
namespace {

// What stands in a row's name for a member of an entry; empty for members that hold no values of
// the call.
std::string_view SectionName(std::string_view key) {
  if (key == "input_args" || key == "input_kwargs") {
    return "input";
  }
  return key == "is_recompute" || key == "is_nan" ? std::string_view() : key;
}

bool IsLeaf(const EntryTree& tree, uint32_t index) {
  const NodeKind kind = tree[index].kind;
  if (kind == NodeKind::kObject) {
    return !LeafText(tree, index, "type").empty();
  }
  return kind != NodeKind::kList;
}

}  // namespace

std::string_view LeafText(const EntryTree& tree, uint32_t index, std::string_view key) {
  const uint32_t child = tree.Find(index, key);
  return child != EntryTree::kNone && tree[child].kind == NodeKind::kText ? tree[child].text
                                                                          : std::string_view();
}

bool IsTensorLeaf(const EntryTree& tree, uint32_t index) {
  return !LeafText(tree, index, "dtype").empty();
}

void LeafWalker::ForEach(std::string_view entry_name, const EntryTree& tree, const Visit& visit) {
  const EntryName parsed = ParseEntryName(entry_name);
  const bool has_sections =
      !parsed.is_debug && !parsed.is_parameters_grad && tree[0].kind == NodeKind::kObject;
  name_ = entry_name;
  open_.clear();
  if (!has_sections && IsLeaf(tree, 0)) {
    visit(name_, 0);
    return;
  }
  open_.push_back({0, name_.size(), 0});
  for (uint32_t index = 1; index < tree.size();) {
    while (tree[open_.back().index].end == index) {
      open_.pop_back();
    }
    Open& parent = open_.back();
    const Node& node = tree[index];
    name_.resize(parent.name_length);
    const bool in_list = tree[parent.index].kind == NodeKind::kList;
    const bool is_section = has_sections && open_.size() == 1;
    const std::string_view part = is_section ? SectionName(node.key) : node.key;
    if (is_section && part.empty()) {
      index = node.end;
      continue;
    }
    if (!in_list) {
      name_ += '.';
      name_ += part;
    } else if (!parsed.is_parameters_grad) {
      name_ += '.';
      name_ += std::to_string(parent.next_child);
    }
    ++parent.next_child;
    if (IsLeaf(tree, index)) {
      visit(name_, index);
      index = node.end;
    } else {
      open_.push_back({index, name_.size(), 0});
      ++index;
    }
  }
}

Status CheckDataName(std::string_view data_name) {
  if (data_name.find('/') != std::string_view::npos || data_name == "..") {
    return BadFormatError(fmt::format("the data_name \"{}\" is not a plain file name", data_name));
  }
  return OkStatus();
}

}  // namespace msprobe::dump
