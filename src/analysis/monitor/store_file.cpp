#include "src/analysis/monitor/store_file.h"

#include <memory>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "src/analysis/monitor/sqlite_static.h"
#include "src/base/files.h"
#include "src/base/interrupt.h"
#include "src/base/output_rule.h"
#include "src/base/strings.h"
#include "src/json/config.h"

namespace msprobe::monitor {
namespace {

namespace fs = std::filesystem;

// The file under a name that no reader looks for, until it is whole.
class PartialFile {
 public:
  explicit PartialFile(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    fs::remove(path_, error);
    slot_ = base::RemoveOnInterrupt(path_.string());
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile() {
    std::error_code error;
    fs::remove(path_, error);
    base::ForgetOnInterrupt(slot_);
  }
  const fs::path& path() const { return path_; }
  Status RenameTo(const fs::path& target) {
    return base::RenameIntoPlace(path_, target, base::ExistingFiles());
  }

 private:
  const fs::path path_;
  int slot_ = -1;
};

}  // namespace

Result<NameMapping> ReadMapping(const fs::path& path) {
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(path));
  NameMapping mapping;
  if (config.root.kind != json::ConfigKind::kObject) {
    return UsageError(fmt::format("{} is no JSON object", path.string()))
        .WithHint("write {\"old\": \"new\"}");
  }
  for (const auto& member : config.root.members) {
    if (member.second.kind != json::ConfigKind::kText) {
      return config.ErrorAt(member.second, member.first, "must be text");
    }
    mapping.emplace_back(member.first, member.second.text);
  }
  return mapping;
}

std::string Mapped(std::string name, const NameMapping& mapping) {
  for (const auto& pair : mapping) {
    if (!pair.first.empty()) {
      name = base::ReplaceAll(name, pair.first, pair.second);
    }
  }
  return name;
}

Status CheckStoreFile(const fs::path& folder, std::string_view name) {
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
  return base::CheckOutputFile(folder / name);
}

Result<fs::path> WriteStoreFile(const fs::path& folder, std::string_view name,
                                const std::function<Status(TrendStore&)>& fill) {
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  fs::path file = folder / name;
  PartialFile partial(folder / fmt::format(".{}.{}.partial", name, ::getpid()));
  MSP_ASSIGN_OR_RETURN(const std::unique_ptr<TrendStore> store,
                       TrendStore::Open(StaticSqlite(), partial.path(), TrendStore::Use::kWhole));
  MSP_RETURN_IF_ERROR(store->Begin());
  MSP_RETURN_IF_ERROR(fill(*store));
  MSP_RETURN_IF_ERROR(store->Commit());
  MSP_RETURN_IF_ERROR(store->Close());
  MSP_RETURN_IF_ERROR(partial.RenameTo(file));
  return file;
}

}  // namespace msprobe::monitor
