#include "src/capture/step_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/capture/run_identity.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"

namespace msprobe::capture {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestPathBytes = 4096;

bool IsAcceptedCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '-' || c == ',';
}

Status RefuseLink(const base::Path& path) {
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(path, ignored))) {
    return IoError(fmt::format(
        "{} is a symbolic link, and captures write into folders of their own", path.string()));
  }
  return {};
}

// Somebody may have made it in advance where everybody may write. Network file systems may give all
// that this user makes to another one, dump_path included.
Status RefuseForeign(const base::Path& folder, const base::Path& dump_path) {
  struct stat there {};
  struct stat root {};
  if (::lstat(folder.c_str(), &there) != 0 || there.st_uid == ::geteuid() ||
      (::stat(dump_path.c_str(), &root) == 0 && there.st_uid == root.st_uid)) {
    return {};
  }
  return IoError(fmt::format("{} belongs to another user (id {}), who could redirect what is "
                             "written into it",
                             folder.string(), there.st_uid))
      .WithHint("name another dump_path, in a folder that only you can write to");
}

// False when another process has the lock. Who only looks whether there is one (IsBeingWritten) has
// it for a moment.
bool TryLock(int descriptor) {
  constexpr int kAttempts = 5;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
      return true;
    }
    ::usleep(1000);
  }
  return false;
}

// Opens and locks the log of a rank folder. A process that finishes removes its log: a lock on a
// file that has no name any more is worth nothing, so the next one is tried.
Result<int> LockLog(const base::Path& folder) {
  const base::Path path = folder / dump::kRecordLogName;
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int descriptor = ::open(
        path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
    if (descriptor < 0) {
      const StatusCode code = errno == ENOENT ? StatusCode::kNotFound : StatusCode::kIo;
      return Status(code, fmt::format("cannot create {}: {}", path.string(), std::strerror(errno)))
          .WithHint("check dump_path: space, permissions, and that it is a folder");
    }
    if (!TryLock(descriptor)) {
      ::close(descriptor);
      return BusyError(folder);
    }
    // Where locks do not exist (some network file systems) the capture goes on without.
    struct stat opened {};
    struct stat named {};
    if (::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev) {
      if (!S_ISREG(opened.st_mode)) {
        ::close(descriptor);
        return IoError(fmt::format("{} is not a regular file", path.string()));
      }
      return descriptor;
    }
    ::close(descriptor);
  }
  return IoError(fmt::format("{} is locked by other processes again and again", path.string()));
}

// Makes the folder and locks its log. A process that learns its rank removes the folder that it had
// before, perhaps between the two.
Result<int> CreateAndLock(const base::Path& folder) {
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
    Result<int> descriptor = LockLog(folder);
    if (descriptor.ok() || descriptor.status().code() != StatusCode::kNotFound ||
        attempt == kAttempts) {
      return descriptor;
    }
  }
}

// Whether what a locked folder holds may be replaced by this run. The log that locking has made
// goes again when not.
Status CheckOwner(const base::Path& folder, int log_descriptor) {
  Status status = CheckLivingOwner(folder);
  if (status.ok() && !ReplacesOtherRuns()) {
    const Result<std::string> run = RunOfDump(folder);
    if (run.ok() && !IsThisRun(*run)) {
      status = OtherRunError(folder);
    }
  }
  struct stat log {};
  if (!status.ok() && ::fstat(log_descriptor, &log) == 0 && log.st_size == 0) {
    ::unlink((folder / dump::kRecordLogName).c_str());
  }
  return status;
}

// Removes what an earlier dump left, the log excepted; tells whether there was something.
Result<bool> RemoveResults(const base::Path& folder) {
  bool found = false;
  for (const std::string_view name : kResultNames) {
    std::error_code error;
    const auto removed = fs::remove_all(folder / name, error);
    if (error) {
      return IoError(fmt::format("cannot remove {} of an earlier dump: {}",
                                 (folder / name).string(), error.message()));
    }
    found |= removed > 0;
  }
  return found;
}

}  // namespace

base::Path StepPlace::step_path() const {
  return base::WithoutLastSlash(dump_path) / fmt::format("step{}", step);
}

base::Path StepPlace::rank_path() const {
  return step_path() / (rank ? fmt::format("rank{}", *rank) : std::string("rank"));
}

Status CheckPlace(const StepPlace& place) {
  if (place.dump_path.empty()) {
    return UsageError("dump_path is empty").WithHint("name the folder that dumps go to");
  }
  std::error_code error;
  const base::Path given = fs::absolute(place.rank_path(), error);
  base::Path resolved;
  // A folder that another process makes at this moment is missing in one look and there in the
  // next, which weakly_canonical() takes for an error.
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    resolved = fs::weakly_canonical(given, error);
    if (error != std::errc::no_such_file_or_directory) {
      break;
    }
  }
  if (error) {
    return IoError(
        fmt::format("cannot resolve dump_path {}: {}", place.dump_path, error.message()));
  }
  const std::string text = (resolved / dump::kTensorFolderName).string();
  if (!std::all_of(text.begin(), text.end(), IsAcceptedCharacter)) {
    return UsageError(fmt::format("dump_path {} is not usable: {}",
                                  base::Printable(place.dump_path), base::Printable(text)))
        .WithHint("letters, digits and _ . / - , are allowed in the path that it stands for");
  }
  const bool long_name = std::any_of(resolved.begin(), resolved.end(), [](const base::Path& part) {
    return part.string().size() > base::kLongestNameBytes;
  });
  if (long_name || text.size() + base::kLongestNameBytes > kLongestPathBytes) {
    return UsageError(fmt::format("dump_path is too long: {} bytes of path, names of at most {}",
                                  text.size(), base::kLongestNameBytes));
  }
  for (const base::Path& folder : {place.step_path(), place.rank_path()}) {
    MSP_RETURN_IF_ERROR(RefuseLink(folder));
    MSP_RETURN_IF_ERROR(RefuseForeign(folder, place.dump_path));
  }
  return {};
}

StepFolder::StepFolder(StepFolder&& other) noexcept
    : place_(std::move(other.place_)),
      path_(std::move(other.path_)),
      tensor_path_(std::move(other.tensor_path_)),
      log_descriptor_(std::exchange(other.log_descriptor_, -1)),
      replaced_(other.replaced_) {}

StepFolder::~StepFolder() {
  if (log_descriptor_ >= 0) {
    ::close(log_descriptor_);
  }
}

Result<StepFolder> StepFolder::Claim(StepPlace place, bool with_tensors) {
  MSP_RETURN_IF_ERROR(CheckPlace(place));
  StepFolder folder;
  folder.path_ = place.rank_path();
  folder.place_ = std::move(place);
  MSP_ASSIGN_OR_RETURN(folder.log_descriptor_, CreateAndLock(folder.path_));
  MSP_RETURN_IF_ERROR(CheckOwner(folder.path_, folder.log_descriptor_));
  MSP_ASSIGN_OR_RETURN(folder.replaced_, RemoveResults(folder.path_));
  struct stat log {};
  folder.replaced_ |= ::fstat(folder.log_descriptor_, &log) == 0 && log.st_size > 0;
  if (::ftruncate(folder.log_descriptor_, 0) != 0) {
    return IoError(
        fmt::format("cannot empty the log in {}: {}", folder.path_.string(), std::strerror(errno)));
  }
  if (with_tensors) {
    folder.tensor_path_ = folder.path_ / dump::kTensorFolderName;
    MSP_RETURN_IF_ERROR(base::CreateFolders(folder.tensor_path_));
  }
  return folder;
}

StepFolder StepFolder::Nowhere(StepPlace place) {
  StepFolder folder;
  folder.place_ = std::move(place);
  return folder;
}

Status StepFolder::MoveTo(int64_t rank) {
  StepPlace place = place_;
  place.rank = rank;
  MSP_RETURN_IF_ERROR(CheckPlace(place));
  const base::Path target = place.rank_path();
  MSP_RETURN_IF_ERROR(CheckOtherRuns(place));
  MSP_ASSIGN_OR_RETURN(const int lock, CreateAndLock(target));
  // Closed at the end: until then nobody else claims the folder.
  struct Unlock {
    int descriptor;
    ~Unlock() { ::close(descriptor); }
  } const unlock{lock};
  MSP_ASSIGN_OR_RETURN(replaced_, RemoveResults(target));
  const auto move = [&](std::string_view name) -> Status {
    if (::rename((path_ / name).c_str(), (target / name).c_str()) != 0 && errno != ENOENT) {
      return IoError(fmt::format("cannot move {} to {}: {}", (path_ / name).string(),
                                 target.string(), std::strerror(errno)));
    }
    return {};
  };
  for (const std::string_view name : kResultNames) {
    MSP_RETURN_IF_ERROR(move(name));
  }
  MSP_RETURN_IF_ERROR(move(dump::kRecordLogName));
  ::rmdir(path_.c_str());  // stays when it holds files of others
  place_ = std::move(place);
  path_ = target;
  if (!tensor_path_.empty()) {
    tensor_path_ = path_ / dump::kTensorFolderName;
  }
  return {};
}

}  // namespace msprobe::capture
