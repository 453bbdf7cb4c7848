// Files, safely: whole reads, mappings, and writes that appear under their final name only when
// complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "msprobe/status.h"

namespace msprobe::base {

// A file descriptor that closes itself.

class Descriptor {
 public:
  // Takes it; a negative one, as calls return that fail, is none.
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) {
      ::close(value_);
    }
  }

  bool is_open() const { return value_ >= 0; }
  int get() const { return value_; }
  int Release() { return std::exchange(value_, -1); }  // the caller closes it

 private:
  int value_;
};

using Path = std::filesystem::path;

// Reads a regular file of at most `limit_bytes`.
Result<std::string> ReadTextFile(const Path& path, uint64_t limit_bytes);

// Creates missing parents too; new folders get mode 0750.
Status CreateFolders(const Path& path);

// Longest name of one entry of a folder on the file systems in use.
inline constexpr size_t kLongestNameBytes = 255;

// Names of the direct entries of a folder, sorted by bytes; no "." and "..".
Result<std::vector<std::string>> ListFolder(const Path& path);

// An open file whose bytes can be borrowed. Small files, and those that `scratch` has the capacity
// for, are read into it (reused by the caller, one per thread), others mapped read-only. The bytes
// live as long as the object and the scratch.
class FileBytes {
 public:
  // Files up to this size are read; a mapping costs more than a copy below it (measured: 1.7
  // against 6 us per file).
  static constexpr size_t kReadBelowBytes = size_t{256} * 1024;

  FileBytes() = default;
  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&& other) noexcept;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes();

  // Maps, or reads into `scratch` when the file is small. `scratch` may be null: always map.
  static Result<FileBytes> Open(const Path& path, std::vector<std::byte>* scratch = nullptr);

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  // Hands the whole pages inside `part` (a part of bytes()) back to the system; they are read again
  // when somebody looks. Does nothing for files that were read instead of mapped.
  void ReleasePages(std::span<const std::byte> part) const;

 private:
  void Release();

  std::span<const std::byte> bytes_;
  void* mapping_ = nullptr;
};

// Whether a regular file with the name of a result is replaced; anything else never is.
enum class Existing : uint8_t { kRefuse, kReplace };

// A new file under a temporary name in the target's folder; Commit() renames it into place, the
// destructor removes it otherwise, and so does an interrupt (see processes.h). Mode 0640.
//
// The folder is held open: whoever may write beside it and puts a symbolic link in the place of the
// folder or of a name cannot lead the bytes anywhere else.
class AtomicFile {
 public:
  AtomicFile() = default;
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Without `existing`, what the rule of this process says (output_files.h). A name that is taken
  // is refused at once, and by Commit() if it was taken since.
  static Result<AtomicFile> Create(const Path& final_path);
  static Result<AtomicFile> Create(const Path& final_path, Existing existing);

  Status Write(std::string_view text);
  Status Write(std::span<const std::byte> bytes);
  // Overwrites earlier bytes (a header whose fields are known last).
  Status WriteAt(uint64_t offset, std::string_view text);
  uint64_t size_bytes() const { return size_bytes_; }
  // Asks for room in advance, which speeds large files up; an error only when there is none.
  Status Reserve(uint64_t bytes);
  // Its mode becomes that of `other`, and its owner too where this process may say so: for a file
  // that takes the place of another.
  Status TakeAccessOf(const Path& other);
  // Closes the file under its temporary name, which can take long; Commit() does it otherwise.
  Status Close();
  Status Commit();

 private:
  void Discard();

  int folder_ = -1;
  int descriptor_ = -1;
  int lock_ = -1;        // a copy of it that keeps the lock from Close() to the rename
  bool exists_ = false;  // under the temporary name
  int cleanup_slot_ = -1;
  Existing existing_ = Existing::kRefuse;
  uint64_t size_bytes_ = 0;
  Path final_path_;
  std::string temporary_name_;
};

Status WriteFileAtomically(const Path& path, std::string_view text);
Status WriteFileAtomically(const Path& path, std::string_view text, Existing existing);

// Gives a complete file its final name. kRefuse: never in place of another, not even of one that
// appears at this moment.
Status RenameIntoPlace(const Path& from, const Path& to, Existing existing);

// The one door through which files are read. Whatever lies under a name that somebody else chose,
// the program does not wait for it and does not read without end: only regular files are opened.
// tools/dev/check_includes.py finds what opens an input in another way.

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

// Files that shrink while they are mapped: the system answers a look behind their new end with
// SIGBUS. Here it becomes zeros and an error of that file.

// For programs of ours only: signals of a training belong to the training. Without it the functions
// below know of no file.
void GuardMappedFiles();

// FileBytes tells of its mappings. Thread-safe, as all here.
void AddMappedFile(std::span<const std::byte> bytes, const Path& path);
void RemoveMappedFile(std::span<const std::byte> bytes);

// Whether the file that `part` is mapped from still has all its bytes: asked behind a computation
// whose result counts for one file. The file is then reported.
Status CheckMappedFile(std::span<const std::byte> part);

// The same for all files mapped so far, but those that CheckMappedFile reported. Asked before a
// result gets its final name, and before the program ends.
Status CheckMappedFiles();

}  // namespace msprobe::base
