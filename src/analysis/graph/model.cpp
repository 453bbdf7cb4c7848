#include "src/analysis/graph/model.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/dump/layout.h"

namespace msprobe::analysis::graph {

Result<RankDump> RankDump::Load(const std::filesystem::path& folder, const KeepEntry& keep_entry) {
  RankDump dump;
  dump.folder_ = folder;
  compare::SideOptions options;
  options.keep_entry = keep_entry;
  options.skim = true;
  options.places = &dump.places_;
  MSP_ASSIGN_OR_RETURN(dump.side_, compare::LoadSide(folder / dump::kDumpFileName, options));
  auto construct = dump::ConstructFile::Read(folder / dump::kConstructFileName);
  if (!construct.ok()) {
    return std::move(construct).status().WithHint(
        "a graph needs the construct.json that dumps of level L0 or mix write beside dump.json");
  }
  dump.construct_ = *std::move(construct);
  if (dump.construct_.empty()) {
    return BadFormatError(fmt::format("{} names no call, so that there is no graph",
                                      (folder / dump::kConstructFileName).string()))
        .WithHint("dump with level L0 or mix: L1 alone records no modules");
  }
  MSP_ASSIGN_OR_RETURN(dump.stacks_, dump::StackFile::Read(folder / dump::kStackFileName));
  MSP_RETURN_IF_ERROR(dump.FindPlaces(keep_entry));
  dump.entry_of_name_.reserve(dump.side_.entries.size());
  for (uint32_t entry = 0; entry < dump.side_.entries.size(); ++entry) {
    dump.entry_of_name_[dump.side_.entries[entry].name] = entry;
  }
  dump.is_output_.reserve(dump.side_.rows.size());
  for (const compare::SideRow& row : dump.side_.rows) {
    dump.is_output_.push_back(row.name.find(".output.") != std::string_view::npos &&
                              row.name.find(".input.") == std::string_view::npos);
  }
  return dump;
}

Status RankDump::FindPlaces(const KeepEntry& keep_entry) {
  const std::filesystem::path path = folder_ / dump::kDumpFileName;
  MSP_ASSIGN_OR_RETURN(access_, dump::EntryAccess::Open(path));
  if (places_.size() == side_.entries.size()) {
    return {};
  }
  places_.clear();
  places_.reserve(side_.entries.size());
  const auto scanned =
      dump::ScanEntries(path, [&](const dump::ScannedEntry& entry, const auto& /*so_far*/) {
        if (!keep_entry || keep_entry(entry.name)) {
          places_.push_back({entry.offset, entry.text.size()});
        }
        return true;
      });
  MSP_RETURN_IF_ERROR(scanned.status());
  if (places_.size() != side_.entries.size()) {
    return IoError(fmt::format("{} changed while it was being read", path.string()));
  }
  return {};
}

uint32_t RankDump::FindEntry(std::string_view name) const {
  const auto found = entry_of_name_.find(name);
  return found == entry_of_name_.end() ? kNone : found->second;
}

Result<dump::EntryTree> RankDump::ReadEntry(uint32_t entry) const {
  return access_->Read(places_[entry].offset, places_[entry].bytes);
}

Status RankDump::ReadEntry(uint32_t entry, dump::EntryTree& tree) const {
  return access_->Read(places_[entry].offset, places_[entry].bytes, tree);
}

Graph::Graph() { Add(kRootName, NodeType::kModule); }

void Graph::Reserve(size_t count) {
  nodes.reserve(count);
  index_of_name_.reserve(count);
}

uint32_t Graph::Find(std::string_view name) const {
  const auto found = index_of_name_.find(name);
  return found == index_of_name_.end() ? kNone : found->second;
}

uint32_t Graph::Add(std::string_view name, NodeType type) {
  const auto index = static_cast<uint32_t>(nodes.size());
  Node& node = nodes.emplace_back();
  node.name = names_->Keep(name);
  node.type = type;
  index_of_name_.emplace(node.name, index);
  return index;
}

void Graph::Attach(uint32_t node, uint32_t parent) {
  nodes[node].parent = parent;
  nodes[parent].children.push_back(node);
}

std::vector<uint32_t> Graph::PathOf(uint32_t node) const {
  std::vector<uint32_t> path;
  for (; node != kNone; node = nodes[node].parent) {
    path.push_back(node);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<uint32_t> Graph::PostOrder() const {
  // Parents first with the last child first, backwards.
  std::vector<uint32_t> order;
  order.reserve(nodes.size());
  std::vector<uint32_t> open = {kRoot};
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    order.push_back(node);
    open.insert(open.end(), nodes[node].children.begin(), nodes[node].children.end());
  }
  std::reverse(order.begin(), order.end());
  return order;
}

std::vector<uint32_t> Graph::LevelOrder() const {
  std::vector<uint32_t> order = {kRoot};
  order.reserve(nodes.size());
  for (size_t at = 0; at < order.size(); ++at) {
    const std::vector<uint32_t>& children = nodes[order[at]].children;
    order.insert(order.end(), children.begin(), children.end());
  }
  return order;
}

}  // namespace msprobe::analysis::graph
