#include "src/base/path_kind.h"

#include <cerrno>
#include <cstring>
#include <mutex>

#include <fmt/format.h>
#include <sys/stat.h>

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

}  // namespace msprobe::base
