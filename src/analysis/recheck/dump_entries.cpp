#include "src/analysis/recheck/dump_entries.h"

#include <fmt/format.h>

#include "src/dump/layout.h"
#include "src/json/config.h"

namespace msprobe::analysis::recheck {

std::string ModuleOf(const dump::EntryName& name) {
  return name.is_module ? fmt::format("{}.{}.{}", name.kind, name.subject, name.class_name)
                        : std::string();
}

Result<DumpEntries> DumpEntries::Open(const std::filesystem::path& json_path, size_t readers) {
  DumpEntries entries;
  entries.loads_ = std::make_shared<reference::TensorLoads>(readers);
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
  entries.ReadRemarks();
  return entries;
}

// Without a manifest, as in dumps of the Python tool, nothing was remarked.
void DumpEntries::ReadRemarks() {
  const Result<json::Config> manifest =
      json::LoadJsonConfig(json_path_.parent_path() / dump::kManifestFileName);
  if (!manifest.ok()) {
    return;
  }
  if (const json::ConfigValue* altered = manifest->root.Find("altered_modules")) {
    for (const auto& [module, why] : altered->members) {
      altered_modules_.emplace(module, why.text);
    }
  }
  if (const json::ConfigValue* own = manifest->root.Find("own_gradients")) {
    for (const json::ConfigValue& parameter : own->items) {
      own_gradients_.insert(parameter.text);
    }
  }
}

reference::Remarks DumpEntries::RemarksOf(std::string_view call) const {
  reference::Remarks remarks;
  const std::string module = ModuleOf(dump::ParseEntryName(call));
  if (module.empty()) {
    return remarks;
  }
  if (const auto altered = altered_modules_.find(module); altered != altered_modules_.end()) {
    remarks.alteration = altered->second;
  }
  for (auto own = own_gradients_.lower_bound(module + ".");
       own != own_gradients_.end() && own->starts_with(module + "."); ++own) {
    remarks.own_gradients.insert(own->substr(module.size() + 1));
  }
  return remarks;
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
