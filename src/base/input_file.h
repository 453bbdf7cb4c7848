// The one door through which files are read. Whatever lies under a name that somebody else chose,
// the program does not wait for it and does not read without end: only regular files are opened.
// tools/dev/check_includes.py finds what opens an input in another way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "msprobe/status.h"

#include "src/base/descriptor.h"
#include "src/base/files.h"

namespace msprobe::base {

// "cannot <action> <path>: <what the system says>", with a remedy where there is one; kNotFound
// where nothing is there, kIo otherwise.
Status SystemError(std::string_view action, const Path& path, int error);

// "a folder", "a FIFO", "a device", ...
std::string_view KindName(mode_t mode);

// ListFolder() of the folder `name` in an open one; `path` is what messages call it.
Result<std::vector<std::string>> ListFolderIn(int beneath, const std::string& name,
                                              const Path& path);

// Whether a symbolic link in the last place of a path is followed.
enum class Links : uint8_t { kFollow, kRefuse };

// An open regular file.
class InputFile {
 public:
  // kNotFound if there is no such file. Only regular files are opened: opening a device may have
  // side effects, and opening a FIFO wakes up the process at its other end.
  static Result<InputFile> Open(const Path& path, Links links = Links::kFollow);
  // `name` in an open folder; `path` is what messages call it.
  static Result<InputFile> OpenIn(int folder, const std::string& name, const Path& path,
                                  Links links = Links::kRefuse);

  int descriptor() const { return descriptor_.get(); }
  int Release() { return descriptor_.Release(); }  // the caller closes it
  uint64_t size_bytes() const { return static_cast<uint64_t>(about_.st_size); }  // when opened
  const struct stat& about() const { return about_; }
  const Path& path() const { return path_; }
  // Another one for every other content, as far as times tell.
  std::string identity() const;

  // Fills `bytes` with what stands at this offset; less only where the file ends.
  Result<size_t> ReadAt(uint64_t offset, std::span<char> bytes) const;
  // The first bytes of it; all there are of a shorter file.
  Result<std::string> Head(size_t most_bytes) const;

 private:
  InputFile(Descriptor descriptor, const struct stat& about, Path path)
      : descriptor_(std::move(descriptor)), about_(about), path_(std::move(path)) {}

  Descriptor descriptor_;
  struct stat about_;
  Path path_;
};

// The first bytes of a file, for those who tell formats apart; empty where none can be read.
std::string HeadOf(const Path& path, size_t most_bytes, Links links = Links::kFollow);

// For commands that read a stream as it comes and say so: a regular file, or what this process was
// given open, whatever it is: "-", /dev/stdin, and /dev/fd/N, which a shell makes of <(...).
Result<Descriptor> OpenStream(const Path& path);

}  // namespace msprobe::base
