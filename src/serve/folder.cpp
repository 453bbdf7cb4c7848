#include "src/serve/folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace msprobe::serve {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

bool IsName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

// Whether there is nothing to serve, rather than a system that refuses: gone, a link, no folder, a
// socket, no name of a file.
bool IsAbsence(int error) {
  return error == ENOENT || error == ELOOP || error == ENOTDIR || error == ENXIO ||
         error == ENAMETOOLONG;
}

constexpr std::string_view kAgain = "load the page again; ulimit -n, where too many files are open";

Status Absent() {
  return NotFoundError("no graph (.vis.db) or page (.html) of the served folder has this name");
}

Status Refused(std::string_view path, int error) {
  return IoError(fmt::format("{}: {}", path, std::strerror(error))).WithHint(std::string(kAgain));
}

void TellUnread(const std::string& path, int error, Folder::Listing& listing) {
  if (!IsAbsence(error)) {
    listing.unread.push_back(fmt::format("{}: {}", path, std::strerror(error)));
  }
}

// Takes `descriptor`, and closes it.
void ListBelow(int descriptor, const std::string& prefix, int level, Folder::Listing& listing) {
  const std::string own_name = prefix.empty() ? "." : prefix;
  DIR* folder = ::fdopendir(descriptor);
  if (folder == nullptr) {
    TellUnread(own_name, errno, listing);
    ::close(descriptor);
    return;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> closed_at_the_end(folder, &::closedir);
  for (;;) {
    errno = 0;
    const dirent* item = ::readdir(folder);
    if (item == nullptr) {
      if (errno != 0) {
        TellUnread(own_name, errno, listing);
      }
      return;
    }
    const std::string name = item->d_name;
    if (!IsName(name)) {
      continue;
    }
    struct stat about {};
    if (::fstatat(descriptor, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) {
      TellUnread(prefix + name, errno, listing);
      continue;
    }
    if (S_ISDIR(about.st_mode) && level < Folder::kMostLevels && !name.starts_with('.')) {
      if (const int below = ::openat(descriptor, name.c_str(), kFolderFlags); below >= 0) {
        ListBelow(below, prefix + name + "/", level + 1, listing);
      } else {
        TellUnread(prefix + name + "/", errno, listing);
      }
      continue;
    }
    const std::optional<FileKind> kind = KindOf(name);
    if (!S_ISREG(about.st_mode) || !kind) {
      continue;
    }
    if (listing.entries.size() >= Folder::kMostFiles) {
      listing.is_whole = false;
      return;
    }
    listing.entries.push_back({prefix + name, *kind, static_cast<int64_t>(about.st_mtime)});
  }
}

}  // namespace

std::optional<FileKind> KindOf(std::string_view name) {
  return name.ends_with(".vis.db") ? std::optional(FileKind::kGraph)
         : name.ends_with(".html") ? std::optional(FileKind::kPage)
                                   : std::nullopt;
}

Result<Folder> Folder::Open(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(path, failed);
  if (failed) {
    return NotFoundError(fmt::format("{}: {}", path.string(), failed.message()))
        .WithHint("give the folder that holds results of msprobe graph or msprobe compare");
  }
  base::Descriptor descriptor(::open(real.c_str(), kFolderFlags));
  if (!descriptor.is_open()) {
    return NotFoundError(fmt::format("{}: {}", path.string(),
                                     errno == ENOTDIR ? "not a folder" : std::strerror(errno)))
        .WithHint("give the folder that holds results of msprobe graph or msprobe compare");
  }
  return Folder(real, std::move(descriptor));
}

Result<base::Descriptor> Folder::OpenFolderOf(std::string_view path) const {
  base::Descriptor folder(::fcntl(descriptor_.get(), F_DUPFD_CLOEXEC, 0));
  if (!folder.is_open()) {
    return Refused(path, errno);
  }
  std::string_view rest = path;
  for (size_t slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    const std::string name(rest.substr(0, slash));
    if (!IsName(name)) {
      return Absent();
    }
    base::Descriptor next(::openat(folder.get(), name.c_str(), kFolderFlags));
    if (!next.is_open()) {
      return IsAbsence(errno) ? Absent() : Refused(path, errno);
    }
    folder = std::move(next);
    rest.remove_prefix(slash + 1);
  }
  return folder;
}

Result<base::InputFile> Folder::OpenRegular(std::string_view path) const {
  MSP_ASSIGN_OR_RETURN(const base::Descriptor folder, OpenFolderOf(path));
  const std::string name(path.substr(path.rfind('/') + 1));
  struct stat about {};
  if (!IsName(name)) {
    return Absent();
  }
  if (::fstatat(folder.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) {
    return IsAbsence(errno) ? Absent() : Refused(path, errno);
  }
  if (!S_ISREG(about.st_mode)) {
    return Absent();
  }
  Result<base::InputFile> file =
      base::InputFile::OpenIn(folder.get(), name, path_ / path, base::Links::kRefuse);
  return file.ok() ? std::move(file)
         : file.status().code() == StatusCode::kNotFound
             ? Absent()
             : Status(file.status()).WithHint(std::string(kAgain));
}

Folder::Listing Folder::List() const {
  Listing listing;
  // By its path again: a copy of the descriptor would share the place of the listing.
  if (const int top = ::openat(descriptor_.get(), ".", kFolderFlags); top >= 0) {
    ListBelow(top, "", 0, listing);
  } else {
    TellUnread(".", errno, listing);
  }
  std::sort(listing.entries.begin(), listing.entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  return listing;
}

}  // namespace msprobe::serve
