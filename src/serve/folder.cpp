#include "src/serve/folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
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

// Takes `descriptor`, and closes it.
void ListBelow(int descriptor, const std::string& prefix, int level, Folder::Listing& listing) {
  DIR* folder = ::fdopendir(descriptor);
  if (folder == nullptr) {
    ::close(descriptor);
    return;
  }
  while (const dirent* item = ::readdir(folder)) {
    const std::string name = item->d_name;
    struct stat about {};
    if (!IsName(name) || ::fstatat(descriptor, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    if (S_ISDIR(about.st_mode) && level < Folder::kMostLevels && !name.starts_with('.')) {
      if (const int below = ::openat(descriptor, name.c_str(), kFolderFlags); below >= 0) {
        ListBelow(below, prefix + name + "/", level + 1, listing);
      }
      continue;
    }
    const std::optional<FileKind> kind = KindOf(name);
    if (!S_ISREG(about.st_mode) || !kind) {
      continue;
    }
    if (listing.entries.size() >= Folder::kMostFiles) {
      listing.is_whole = false;
      break;
    }
    listing.entries.push_back({prefix + name, *kind, static_cast<int64_t>(about.st_mtime)});
  }
  ::closedir(folder);
}

}  // namespace

std::optional<FileKind> KindOf(std::string_view name) {
  return name.ends_with(".vis.db") ? std::optional(FileKind::kGraph)
         : name.ends_with(".html") ? std::optional(FileKind::kPage)
                                   : std::nullopt;
}

OpenFile::OpenFile(int descriptor) : descriptor_(descriptor) {
  struct stat about {};
  if (::fstat(descriptor, &about) == 0) {
    size_bytes_ = static_cast<uint64_t>(about.st_size);
    identity_ = fmt::format("{}:{}:{}:{}.{}", about.st_dev, about.st_ino, about.st_size,
                            about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
  }
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_),
      identity_(std::move(other.identity_)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(identity_, other.identity_);
  return *this;
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

int OpenFile::Release() { return std::exchange(descriptor_, -1); }

std::string OpenFile::Head(size_t most_bytes) const {
  std::string head(std::min<uint64_t>(most_bytes, size_bytes_), '\0');
  size_t done = 0;
  while (done < head.size()) {
    const ssize_t got =
        ::pread(descriptor_, head.data() + done, head.size() - done, static_cast<off_t>(done));
    if (got <= 0) {
      break;
    }
    done += static_cast<size_t>(got);
  }
  head.resize(done);
  return head;
}

Result<Folder> Folder::Open(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(path, failed);
  if (failed) {
    return NotFoundError(fmt::format("{}: {}", path.string(), failed.message()))
        .WithHint("give the folder that holds results of msprobe graph or msprobe compare");
  }
  const int descriptor = ::open(real.c_str(), kFolderFlags);
  if (descriptor < 0) {
    return NotFoundError(fmt::format("{}: {}", path.string(),
                                     errno == ENOTDIR ? "not a folder" : std::strerror(errno)))
        .WithHint("give the folder that holds results of msprobe graph or msprobe compare");
  }
  return Folder(real, descriptor);
}

Folder::Folder(Folder&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

Folder::~Folder() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

std::optional<OpenFile> Folder::OpenRegular(std::string_view path) const {
  int folder = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  while (folder >= 0) {
    const size_t slash = path.find('/');
    const std::string name(path.substr(0, slash));
    const bool is_last = slash == std::string_view::npos;
    if (!IsName(name)) {
      break;
    }
    const int next =
        ::openat(folder, name.c_str(),
                 is_last ? O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC : kFolderFlags);
    ::close(folder);
    folder = next;
    if (next < 0) {
      return std::nullopt;
    }
    if (is_last) {
      OpenFile file(next);
      struct stat about {};
      return ::fstat(next, &about) == 0 && S_ISREG(about.st_mode) ? std::optional(std::move(file))
                                                                  : std::nullopt;
    }
    path.remove_prefix(slash + 1);
  }
  if (folder >= 0) {
    ::close(folder);
  }
  return std::nullopt;
}

Folder::Listing Folder::List() const {
  Listing listing;
  // By its path again: a copy of the descriptor would share the place of the listing.
  if (const int top = ::openat(descriptor_, ".", kFolderFlags); top >= 0) {
    ListBelow(top, "", 0, listing);
  }
  std::sort(listing.entries.begin(), listing.entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  return listing;
}

}  // namespace msprobe::serve
