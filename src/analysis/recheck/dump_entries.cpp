#include "src/analysis/recheck/dump_entries.h"

#include <fmt/format.h>

#include "src/dump/layout.h"
#include "src/dump/names.h"

namespace msprobe::analysis::recheck {

Result<DumpEntries> DumpEntries::Open(const std::filesystem::path& json_path, size_t readers) {
  DumpEntries entries;
  entries.loads_ = std::make_shared<TensorLoads>(readers);
  entries.json_path_ = json_path;
  MSP_ASSIGN_OR_RETURN(
      const dump::EntryScanOutcome outcome,
      dump::ScanEntries(
          json_path, [&](const dump::ScannedEntry& entry, const dump::EntryScanOutcome&) {
            const auto [place, is_new] = entries.places_.emplace(std::string(entry.name), Place());
            place->second = {entry.offset, entry.text.size()};
            const dump::EntryName name = dump::ParseEntryName(entry.name);
            if (is_new && name.direction != dump::Direction::kNone) {
              entries.calls_.emplace_back(entry.name);
            }
            return true;
          }));
  if (!outcome.has_data) {
    return BadFormatError(
        fmt::format("{} holds no calls: it has no object \"data\"", json_path.string()));
  }
  entries.task_ = outcome.task.value_or("");
  entries.framework_ = outcome.framework.value_or("");
  entries.truncated_ = outcome.truncated;
  entries.size_bytes_ = outcome.size_bytes;
  MSP_ASSIGN_OR_RETURN(entries.access_, dump::EntryAccess::Open(json_path));
  return entries;
}

std::filesystem::path DumpEntries::tensor_folder() const {
  return json_path_.parent_path() / dump::kTensorFolderName;
}

Result<dump::EntryTree> DumpEntries::Read(std::string_view name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) {
    return NotFoundError(fmt::format("{} has no entry {}", json_path_.string(), name));
  }
  return access_->Read(found->second.offset, found->second.bytes);
}

}  // namespace msprobe::analysis::recheck
