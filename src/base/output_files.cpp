#include "src/base/output_files.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/processes.h"
#include "src/base/strings.h"

namespace msprobe::base {
namespace {

std::mutex g_kinds_mutex;
Status g_unseen;  // of the first one

bool SaysThatNothingIsThere(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
}

// The bits of its type; 0 when there is none.
mode_t TypeOf(const Path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) {
    return found.st_mode & S_IFMT;
  }
  const int error = errno;
  if (!SaysThatNothingIsThere(error)) {
    NoteUnseen(IoError(fmt::format("cannot look at {}: {}", path.string(), std::strerror(error))));
  }
  return 0;
}

}  // namespace

bool Exists(const Path& path) { return TypeOf(path) != 0; }

bool IsFolder(const Path& path) { return TypeOf(path) == S_IFDIR; }

bool IsRegularFile(const Path& path) { return TypeOf(path) == S_IFREG; }

std::vector<std::string> NamesIn(const Path& folder) {
  if (!IsFolder(folder)) {
    return {};
  }
  Result<std::vector<std::string>> names = ListFolder(folder);
  if (!names.ok()) {
    NoteUnseen(names.status());
    return {};
  }
  return *std::move(names);
}

void NoteUnseen(const Status& status) {
  const std::lock_guard lock(g_kinds_mutex);
  if (g_unseen.ok() && !status.ok() && status.code() != StatusCode::kNotFound) {
    g_unseen = IoError(status.message())
                   .WithHint(
                       "check the permissions of the folders and the disk; what was found is "
                       "about the rest");
  }
}

Status CheckUnseenPaths() {
  const std::lock_guard lock(g_kinds_mutex);
  return g_unseen;
}

namespace {

// A process that writes into more folders than this looks through some of them again.
constexpr size_t kMostKnownFolders = 4096;

bool HasDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Whether `name` is `begin`, something, `end`.
bool IsBetween(std::string_view name, std::string_view begin, std::string_view end) {
  return name.size() > begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end);
}

// "NAME.4711.partial"
bool IsPartial(std::string_view name) {
  constexpr std::string_view kEnd = ".partial";
  if (!IsBetween(name, ".", kEnd)) {
    return false;
  }
  name.remove_suffix(kEnd.size());
  const size_t dot = name.rfind('.');
  return dot > 0 && HasDigits(name.substr(dot + 1));
}

// `begin` and what mkstemp and mkdtemp made of XXXXXX.
bool IsMadeFrom(std::string_view name, std::string_view begin) {
  return name.starts_with(begin) && name.size() == begin.size() + 6;
}

bool IsTemporaryFile(std::string_view name, Leftovers kind) {
  if (kind == Leftovers::kOfLaunchers) {
    return IsMadeFrom(name, "msprobe-launch-");
  }
  return IsBetween(name, ".msprobe-", ".tmp") || IsBetween(name, ".msprobe-", ".reserved") ||
         IsPartial(name);
}

bool IsTemporaryFolder(std::string_view name, Leftovers kind) {
  if (kind == Leftovers::kOfLaunchers) {
    return IsMadeFrom(name, "msprobe-worker-");
  }
  constexpr std::string_view kBegin = ".msprobe-staging.";
  return name.starts_with(kBegin) && HasDigits(name.substr(kBegin.size()));
}

// A folder that is made where another one was removed may have its number, but not its time of
// birth.
bool IsFirstLook(int folder, Leftovers kind) {
  using Identity = std::array<int64_t, 6>;
  static std::mutex mutex;
  static std::set<Identity> known;
  struct statx there {};
  // By its number: older C libraries have no function for it.
  if (::syscall(SYS_statx, folder, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &there) != 0 ||
      (there.stx_mask & STATX_BTIME) == 0) {
    return true;  // one look too many does no harm
  }
  const std::lock_guard lock(mutex);
  if (known.size() >= kMostKnownFolders) {
    known.clear();
  }
  return known
      .insert({there.stx_dev_major, there.stx_dev_minor, static_cast<int64_t>(there.stx_ino),
               there.stx_btime.tv_sec, there.stx_btime.tv_nsec, static_cast<int64_t>(kind)})
      .second;
}

// The open folder, by a path that stays its own whatever happens to its name.
Path PathOf(int folder) { return "/proc/self/fd/" + std::to_string(folder); }

void RemoveIfAbandoned(int folder, const std::string& name, bool is_folder) {
  const int descriptor =
      ::openat(folder, name.c_str(),
               O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (is_folder ? O_DIRECTORY : 0));
  if (descriptor < 0) {
    return;
  }
  struct stat opened {};
  struct stat named {};
  if (::fstat(descriptor, &opened) == 0 && opened.st_uid == ::geteuid() &&
      (is_folder ? S_ISDIR(opened.st_mode) : S_ISREG(opened.st_mode)) &&
      ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 &&
      // Its name may be another's by now.
      ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
      named.st_ino == opened.st_ino && named.st_dev == opened.st_dev) {
    if (is_folder) {
      std::error_code ignored;
      std::filesystem::remove_all(PathOf(folder) / name, ignored);
    } else {
      ::unlinkat(folder, name.c_str(), 0);
    }
  }
  ::close(descriptor);
}

void RemoveLeftovers(int folder, Leftovers kind) {
  // The descriptor may be good for names only.
  const int readable = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (readable < 0) {
    return;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(readable), &::closedir);
  if (entries == nullptr) {
    ::close(readable);
    return;
  }
  if (!IsOfThisMachine(readable)) {
    return;
  }
  std::vector<std::pair<std::string, bool>> found;
  while (const dirent* const entry = ::readdir(entries.get())) {
    const bool is_folder = IsTemporaryFolder(entry->d_name, kind);
    if (is_folder || IsTemporaryFile(entry->d_name, kind)) {
      found.emplace_back(entry->d_name, is_folder);
    }
  }
  for (const auto& [name, is_folder] : found) {
    RemoveIfAbandoned(readable, name, is_folder);
  }
}

}  // namespace

bool MarkUnfinished(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return errno != EWOULDBLOCK;
  }
  struct stat there {};
  return ::fstat(descriptor, &there) != 0 || there.st_nlink > 0;
}

int MakeUnfinished(const std::function<int()>& make) {
  // Whoever looks for leftovers holds one for some microseconds, and its name is free after that.
  constexpr int kAttempts = 1000;
  constexpr std::chrono::milliseconds kPause(1);
  int error = EBUSY;
  bool was_taken = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int descriptor = make();
    if (descriptor >= 0 && MarkUnfinished(descriptor)) {
      return descriptor;
    }
    error = descriptor < 0 ? errno : EBUSY;
    if (descriptor >= 0) {
      was_taken = true;
      ::close(descriptor);
    } else if (!was_taken || error != EEXIST) {
      break;
    }
    std::this_thread::sleep_for(kPause);
  }
  errno = error;
  return -1;
}

void RemoveAbandonedIn(int folder, Leftovers kind) noexcept {
  try {
    if (IsFirstLook(folder, kind)) {  // for most files nothing is opened
      RemoveLeftovers(folder, kind);
    }
  } catch (const std::bad_alloc&) {  // the next one removes them
  }
}

void RemoveAbandoned(const Path& folder, Leftovers kind) noexcept {
  const int descriptor = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    RemoveAbandonedIn(descriptor, kind);
    ::close(descriptor);
  }
}

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
    ::unlink(path.c_str());  // still ours: made a moment ago, and locked
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
    ::close(
        std::exchange(descriptor_, -1));  // after its name: a name without a lock cannot be taken
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

PartialFile::PartialFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  std::filesystem::remove(path_, error);
  slot_ = RemoveOnInterrupt(path_.string());
}

PartialFile::~PartialFile() {
  std::error_code error;
  std::filesystem::remove(path_, error);
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  ForgetOnInterrupt(slot_);
}

Status PartialFile::Create() {
  RemoveAbandoned(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
  descriptor_ = MakeUnfinished([this] {
    return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
  });
  if (descriptor_ < 0) {
    return IoError(fmt::format("cannot create {}: {}", path_.string(), std::strerror(errno)))
        .WithHint("check the space in the folder and its permissions");
  }
  return {};
}

Status PartialFile::RenameTo(const std::filesystem::path& target) {
  return RenameIntoPlace(path_, target, ExistingFiles());
}

namespace fs = std::filesystem;

namespace {

// Known not to be there: what cannot be looked at is not ours.
bool IsMissing(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() == fs::file_type::not_found;
}

}  // namespace

StagingFolder::StagingFolder(const fs::path& output)
    : created_output_(IsMissing(output)),
      output_(output),
      path_(output / fmt::format(".msprobe-staging.{}", ::getpid())),
      cleanup_slot_(RemoveOnInterrupt(path_.string())) {}

StagingFolder::~StagingFolder() {
  // Its files go without a descriptor more, in case that those have run out; folders in it do not.
  DIR* const entries = descriptor_ < 0 ? nullptr : ::fdopendir(descriptor_);
  while (const dirent* const entry = entries == nullptr ? nullptr : ::readdir(entries)) {
    ::unlinkat(descriptor_, entry->d_name, 0);
  }
  std::error_code error;
  if (::rmdir(path_.c_str()) != 0) {
    fs::remove_all(path_, error);
  }
  if (entries != nullptr) {
    ::closedir(entries);  // and with it the lock
  } else if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (created_output_) {
    fs::remove(output_, error);  // only when it is empty
  }
  ForgetOnInterrupt(cleanup_slot_);
}

Status StagingFolder::Create() {
  MSP_RETURN_IF_ERROR(CreateFolders(output_));
  RemoveAbandoned(output_);
  descriptor_ = MakeUnfinished([this] {
    while (::mkdir(path_.c_str(), 0750) == 0) {
      const int made = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
      if (made >= 0 || errno != ENOENT) {
        return made;
      }
      // Taken for a leftover before it could even be opened.
    }
    return -1;
  });
  if (descriptor_ < 0) {
    return IoError(fmt::format("cannot create {}: {}", path_.string(), std::strerror(errno)));
  }
  return {};
}

Status StagingFolder::MoveFiles() {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(path_));
  for (const std::string& name : names) {
    MSP_RETURN_IF_ERROR(CheckOutputFile(output_ / name));
  }
  for (const std::string& name : names) {
    MSP_RETURN_IF_ERROR(RenameIntoPlace(path_ / name, output_ / name, ExistingFiles()));
  }
  return {};
}

}  // namespace msprobe::base
