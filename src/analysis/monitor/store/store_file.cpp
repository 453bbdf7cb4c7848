#include "src/analysis/monitor/store/store_file.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/analysis/monitor/store/linked_sqlite.h"
#include "src/base/files.h"
#include "src/base/interrupt.h"
#include "src/base/output_rule.h"

namespace msprobe::analysis::monitor {
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
  // Makes the file, empty: never through a link that somebody else has put there meanwhile.
  Status Create() const {
    const int fd =
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd < 0) {
      return IoError(fmt::format("cannot create {}: {}", path_.string(), std::strerror(errno)))
          .WithHint("check the space in the folder and its permissions");
    }
    ::close(fd);
    return {};
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

Status CheckStoreFile(const fs::path& folder, std::string_view name) {
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
  return base::CheckOutputFile(folder / name);
}

Result<fs::path> WriteStoreFile(const fs::path& folder, std::string_view name,
                                const std::function<Status(msprobe::monitor::TrendStore&)>& fill) {
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  fs::path file = folder / name;
  PartialFile partial(folder / fmt::format(".{}.{}.partial", name, ::getpid()));
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
