#include "src/base/input_file.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/number_text.h"

namespace msprobe::base {
namespace {

Status NotRegular(const Path& path, mode_t mode) {
  return IoError(
      fmt::format("cannot read {}: it is {}, not a regular file", path.string(), KindName(mode)));
}

// The descriptor that such a path names, of those that this process was given.
std::optional<int> GivenDescriptor(const Path& path) {
  const std::string& text = path.native();
  if (text == "-" || text == "/dev/stdin") {
    return STDIN_FILENO;
  }
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (text.starts_with(folder)) {
      const std::optional<int64_t> number = ParseInt(std::string_view(text).substr(folder.size()));
      return number && *number >= 0 && *number <= INT32_MAX
                 ? std::optional(static_cast<int>(*number))
                 : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view KindName(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFLNK:
      return "a symbolic link";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    case S_IFBLK:
    case S_IFCHR:
      return "a device";
    default:
      return "something else";
  }
}

Result<InputFile> InputFile::Open(const Path& path, Links links) {
  return OpenIn(AT_FDCWD, path.native(), path, links);
}

Result<InputFile> InputFile::OpenIn(int folder, const std::string& name, const Path& path,
                                    Links links) {
  const bool follows = links == Links::kFollow;
  struct stat about {};
  if (::fstatat(folder, name.c_str(), &about, follows ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
    return SystemError("open", path, errno);
  }
  if (!S_ISREG(about.st_mode)) {
    return NotRegular(path, about.st_mode);
  }
  // It may have been exchanged since: neither the opening waits, nor is anything else kept.
  Descriptor descriptor(
      ::openat(folder, name.c_str(),
               O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follows ? 0 : O_NOFOLLOW)));
  if (!descriptor.is_open()) {
    return SystemError("open", path, errno);
  }
  if (::fstat(descriptor.get(), &about) != 0) {
    return SystemError("inspect", path, errno);
  }
  if (!S_ISREG(about.st_mode)) {
    return NotRegular(path, about.st_mode);
  }
  return InputFile(std::move(descriptor), about, path);
}

std::string InputFile::identity() const {
  return fmt::format("{}:{}:{}:{}.{}", about_.st_dev, about_.st_ino, about_.st_size,
                     about_.st_mtim.tv_sec, about_.st_mtim.tv_nsec);
}

Result<size_t> InputFile::ReadAt(uint64_t offset, std::span<char> bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pread(descriptor_.get(), bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return SystemError("read", path_, errno);
    }
    if (count == 0) {
      break;
    }
    done += static_cast<size_t>(count);
  }
  return done;
}

Result<std::string> InputFile::Head(size_t most_bytes) const {
  std::string head(most_bytes, '\0');  // files of the kernel do not tell their size
  MSP_ASSIGN_OR_RETURN(const size_t count, ReadAt(0, head));
  head.resize(count);
  return head;
}

std::string HeadOf(const Path& path, size_t most_bytes, Links links) {
  const Result<InputFile> file = InputFile::Open(path, links);
  Result<std::string> head = file.ok() ? file->Head(most_bytes) : file.status();
  return head.ok() ? *std::move(head) : std::string();
}

Result<Descriptor> OpenStream(const Path& path) {
  const std::optional<int> given = GivenDescriptor(path);
  if (!given) {
    MSP_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
    return Descriptor(file.Release());
  }
  Descriptor descriptor(::fcntl(*given, F_DUPFD_CLOEXEC, 0));
  struct stat about {};
  if (!descriptor.is_open() || ::fstat(descriptor.get(), &about) != 0) {
    return SystemError("read", path, errno);
  }
  return S_ISDIR(about.st_mode) ? NotRegular(path, about.st_mode)
                                : Result<Descriptor>(std::move(descriptor));
}

}  // namespace msprobe::base
