#include "src/analysis/monitor/store/store_file.h"

#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "src/analysis/monitor/store/linked_sqlite.h"
#include "src/base/files.h"
#include "src/base/output_rule.h"
#include "src/base/partial_file.h"

namespace msprobe::analysis::monitor {
namespace {

namespace fs = std::filesystem;

}  // namespace

Status CheckStoreFile(const fs::path& folder, std::string_view name) {
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
  return base::CheckOutputFile(folder / name);
}

Result<fs::path> WriteStoreFile(const fs::path& folder, std::string_view name,
                                const std::function<Status(msprobe::monitor::TrendStore&)>& fill) {
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  fs::path file = folder / name;
  base::PartialFile partial(folder / fmt::format(".{}.{}.partial", name, ::getpid()));
  MSP_RETURN_IF_ERROR(partial.Create());
  MSP_ASSIGN_OR_RETURN(
      const std::unique_ptr<msprobe::monitor::TrendStore> store,
      msprobe::monitor::TrendStore::Open(LinkedSqlite(), partial.path(),
                                         msprobe::monitor::TrendStore::Use::kWhole));
  MSP_RETURN_IF_ERROR(store->Begin());
  MSP_RETURN_IF_ERROR(fill(*store));
  MSP_RETURN_IF_ERROR(store->Commit());
  MSP_RETURN_IF_ERROR(store->Close());
  MSP_RETURN_IF_ERROR(partial.RenameTo(file));
  return file;
}

}  // namespace msprobe::analysis::monitor
