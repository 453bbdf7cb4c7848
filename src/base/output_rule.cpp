#include "src/base/output_rule.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/input_file.h"
#include "src/base/interrupt.h"
#include "src/base/number_text.h"
#include "src/base/strings.h"
#include "src/base/unfinished.h"

namespace msprobe::base {
namespace {

constexpr int kMostRunsOfASecond = 10000;

std::atomic<Existing> existing_files{Existing::kRefuse};

// The number behind the time in the name of a result: 0 for NAME_<time>.xlsx, 2 for
// NAME_<time>_2.xlsx, -1 when the time is not in it.
int NumberInName(std::string_view name, std::string_view time) {
  const size_t at = name.find(time);
  if (at == std::string_view::npos) {
    return -1;
  }
  std::string_view rest = name.substr(at + time.size());
  if (!rest.starts_with('_')) {
    return 0;
  }
  rest.remove_prefix(1);
  const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const bool ends = digits == rest.size() || rest[digits] == '.' || rest[digits] == '_';
  const std::optional<int64_t> number = ParseInt(rest.substr(0, digits));
  return number && ends && *number <= kMostRunsOfASecond ? static_cast<int>(*number) : 0;
}

constexpr int kTaken = -2;

enum class Name : uint8_t { kOurs, kOfAnother, kUnknown };

// Whether the file that is open still has its name; kUnknown with errno.
Name WhoseName(int descriptor, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  if (::fstat(descriptor, &opened) != 0) {
    return Name::kUnknown;
  }
  if (::lstat(path.c_str(), &named) != 0) {
    return errno == ENOENT ? Name::kOfAnother : Name::kUnknown;
  }
  return opened.st_ino == named.st_ino && opened.st_dev == named.st_dev ? Name::kOurs
                                                                        : Name::kOfAnother;
}

// The descriptor of a reservation that is now ours, locked where locks exist; kTaken when another
// run has it, -1 with errno. The file of a run that was killed has no lock and is taken over.
int Reserve(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
  const bool is_new = fd >= 0;
  if (!is_new) {
    if (errno != EEXIST) {
      return -1;
    }
    fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
      return kTaken;
    }
  }
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  const bool has_no_locks = !locked && errno != EWOULDBLOCK;
  const Name name = locked ? WhoseName(fd, path) : Name::kOfAnother;
  if (name == Name::kOurs || (is_new && has_no_locks)) {
    return fd;
  }
  const int error = errno;
  if (name == Name::kUnknown && is_new) {
    ::unlink(path.c_str());  // nobody else has taken it: made a moment ago, and locked
  }
  ::close(fd);
  errno = error;
  return name == Name::kUnknown ? -1 : kTaken;
}

bool IsTaken(const std::vector<std::string>& names, std::string_view time, int number) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return !name.starts_with('.') && NumberInName(name, time) == number;
  });
}

}  // namespace

void SetExistingFiles(Existing rule) { existing_files.store(rule); }
Existing ExistingFiles() { return existing_files.load(); }

bool IsStandardOutput(const Path& path) {
  constexpr std::array<std::string_view, 4> kNames = {"-", "/dev/stdout", "/dev/fd/1",
                                                      "/proc/self/fd/1"};
  return std::find(kNames.begin(), kNames.end(), path.native()) != kNames.end();
}

Status CheckReplaceable(const Path& path, Existing existing) {
  if (IsStandardOutput(path)) {
    return UsageError(
               fmt::format("{} is the standard output, and this result is a file", path.string()))
        .WithHint("name a file");
  }
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) {
    return {};  // new, or the error shows when it is made
  }
  if (!S_ISREG(there.st_mode)) {
    return UsageError(fmt::format("{} is {}; results go to regular files only",
                                  Printable(path.string()), KindName(there.st_mode)))
        .WithHint("name a file that does not exist yet");
  }
  if (existing == Existing::kRefuse) {
    return UsageError(fmt::format("{} exists", Printable(path.string())))
        .WithHint("--force replaces it; or choose another name, for example with -o");
  }
  return {};
}

Status CheckOutputFile(const Path& path) {
  MSP_RETURN_IF_ERROR(CheckReplaceable(path, ExistingFiles()));
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && there.st_uid != ::geteuid()) {
    return UsageError(fmt::format("{} belongs to another user; it is not replaced",
                                  Printable(path.string())))
        .WithHint("name another one");
  }
  return {};
}

Status CheckOutputFiles(std::span<const Path> paths) {
  for (const Path& path : paths) {
    MSP_RETURN_IF_ERROR(CheckOutputFile(path));
  }
  return {};
}

Status CheckOutputFolder(const Path& folder) {
  struct stat there {};
  if (IsStandardOutput(folder)) {
    return UsageError(
               fmt::format("{} is the standard output, and the results are files", folder.string()))
        .WithHint("name a folder");
  }
  if (::stat(folder.c_str(), &there) == 0 && !S_ISDIR(there.st_mode)) {
    return UsageError(fmt::format("the output {} is {}, and the results need a folder",
                                  Printable(folder.string()),
                                  S_ISREG(there.st_mode) ? "a file" : KindName(there.st_mode)))
        .WithHint("name a folder");
  }
  RemoveAbandoned(folder);  // also where the results that are there are refused
  return {};
}

Status CheckWritable(const Path& folder) {
  Path nearest = folder;
  struct stat there {};
  while (::stat(nearest.empty() ? "." : nearest.c_str(), &there) != 0 &&
         nearest.has_relative_path()) {
    nearest = nearest.parent_path();
  }
  const Path shown = nearest.empty() ? Path("the current folder") : nearest;
  if (!S_ISDIR(there.st_mode)) {
    return IoError(fmt::format("cannot write to {}: {} is not a folder", Printable(folder.string()),
                               Printable(shown.string())));
  }
  if (there.st_nlink == 0) {
    return IoError(fmt::format("cannot write to {}: {} has been deleted",
                               Printable(folder.string()), Printable(shown.string())));
  }
  if (::faccessat(AT_FDCWD, nearest.empty() ? "." : nearest.c_str(), W_OK | X_OK, AT_EACCESS) !=
      0) {
    return IoError(fmt::format("cannot write to {}: {}: {}", Printable(folder.string()),
                               Printable(shown.string()), std::strerror(errno)));
  }
  return {};
}

Result<RunStamp> RunStamp::Take(const Path& folder, const std::string& time) {
  MSP_RETURN_IF_ERROR(CheckOutputFolder(folder));
  MSP_RETURN_IF_ERROR(CreateFolders(folder));
  for (int number = 0; number < kMostRunsOfASecond; ++number) {
    RunStamp stamp;
    stamp.text_ = number == 0 ? time : fmt::format("{}_{}", time, number);
    std::string reservation = fmt::format("{}/.msprobe-{}.reserved", folder.string(), stamp.text_);
    stamp.cleanup_slot_ = RemoveOnInterrupt(reservation);
    stamp.descriptor_ = Reserve(reservation);
    if (stamp.descriptor_ == kTaken) {
      continue;
    }
    if (stamp.descriptor_ < 0) {
      const int error = errno;
      return IoError(fmt::format("cannot write to {}: {}", folder.string(), std::strerror(error)))
          .WithHint("choose another folder with -o");
    }
    stamp.reservation_ = std::move(reservation);  // a copy may fail, and leave the file
    // Looked at behind the reservation: a run that has ended since left its files.
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder));
    if (!IsTaken(names, time, number)) {
      return stamp;
    }
  }
  return IoError(fmt::format("{} already has too many results of this second", folder.string()))
      .WithHint("choose another folder with -o");
}

RunStamp RunStamp::Shared(const std::string& time) {
  RunStamp stamp;
  stamp.text_ = time;
  return stamp;
}

RunStamp::RunStamp(RunStamp&& other) noexcept
    : text_(std::move(other.text_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      reservation_(std::exchange(other.reservation_, {})),
      cleanup_slot_(std::exchange(other.cleanup_slot_, -1)) {}

RunStamp& RunStamp::operator=(RunStamp&& other) noexcept {
  if (this != &other) {
    Release();
    text_ = std::move(other.text_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    reservation_ = std::exchange(other.reservation_, {});
    cleanup_slot_ = std::exchange(other.cleanup_slot_, -1);
  }
  return *this;
}

RunStamp::~RunStamp() { Release(); }

void RunStamp::Release() {
  if (!reservation_.empty()) {
    ::unlink(reservation_.c_str());
    reservation_.clear();
  }
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));  // behind its name: nobody takes a name without a lock
  }
  ForgetOnInterrupt(std::exchange(cleanup_slot_, -1));
}

Result<Path> WriteSummary(const Path& folder, const RunStamp& stamp, std::string_view text) {
  Path path = folder / "summary.json";
  std::error_code error;
  const auto is_taken = [&] {
    return ExistingFiles() == Existing::kRefuse &&
           std::filesystem::exists(std::filesystem::symlink_status(path, error));
  };
  if (!is_taken()) {
    const Status status = WriteFileAtomically(path, text);
    if (status.ok()) {
      return path;
    }
    if (!is_taken()) {  // another run may have written its own meanwhile
      return status;
    }
  }
  path = folder / fmt::format("summary_{}.json", stamp.text());
  MSP_RETURN_IF_ERROR(WriteFileAtomically(path, text));
  return path;
}

}  // namespace msprobe::base
