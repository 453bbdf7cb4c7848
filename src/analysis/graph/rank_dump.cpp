#include "src/analysis/graph/rank_dump.h"

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

}  // namespace msprobe::analysis::graph
