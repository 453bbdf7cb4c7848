#include "src/base/unfinished.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace msprobe::base {
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

// Elsewhere another host may write, whose locks are not seen here.
bool IsOfThisMachine(int folder) {
  constexpr std::array<uint64_t, 8> kLocal = {
      0xEF53,      // ext2, ext3, ext4
      0x58465342,  // xfs
      0x9123683E,  // btrfs
      0x01021994,  // tmpfs
      0x794C7630,  // overlayfs
      0xF2F52010,  // f2fs
      0x2FC12FC1,  // zfs
      0x858458F6,  // ramfs
  };
  struct statfs system {};
  return ::fstatfs(folder, &system) == 0 &&
         std::find(kLocal.begin(), kLocal.end(), static_cast<uint32_t>(system.f_type)) !=
             kLocal.end();
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

}  // namespace msprobe::base
