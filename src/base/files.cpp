#include "src/base/files.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/descriptor.h"
#include "src/base/input_file.h"
#include "src/base/interrupt.h"
#include "src/base/mapped_files.h"
#include "src/base/new_folders.h"
#include "src/base/output_rule.h"
#include "src/base/unfinished.h"

namespace msprobe::base {
namespace {

constexpr mode_t kFileMode = 0640;
constexpr mode_t kFolderMode = 0750;
constexpr uint64_t kMapAtOnceBytes = uint64_t{1} << 20U;

Status ReadAll(const InputFile& file, std::span<char> bytes) {
  MSP_ASSIGN_OR_RETURN(const size_t count, file.ReadAt(0, bytes));
  return count == bytes.size() ? OkStatus()
                               : IoError(fmt::format("cannot read {}: it shrank while being read",
                                                     file.path().string()));
}

// Whether it was made; false where it is there already.
Result<bool> MakeFolder(const Path& path) {
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    if (::mkdir(path.c_str(), kFolderMode) == 0) {
      return true;
    }
    const int error = errno;
    struct stat found {};
    const bool is_there = ::stat(path.c_str(), &found) == 0;
    if (is_there && S_ISDIR(found.st_mode)) {
      return false;
    }
    if (!is_there && error == EEXIST && errno != ENOENT) {
      return SystemError("look at", path, errno);
    }
    // Another process may have removed it before it was looked at.
    if (is_there || error != EEXIST || attempt == kAttempts) {
      return SystemError("create folder", path, error);
    }
  }
}

// The folder of an entry, spelled so that it can be opened.
std::string FolderOf(const Path& path) {
  std::string folder = path.parent_path().string();
  return folder.empty() ? "." : folder;
}

// `from` and `to` are names in `folder`, `path` is what `to` is called in messages.
Status RenameWithin(int folder, const std::string& from, const std::string& to, const Path& path,
                    Existing existing) {
  if (existing == Existing::kRefuse) {
    if (::renameat2(folder, from.c_str(), folder, to.c_str(), RENAME_NOREPLACE) == 0) {
      return {};
    }
    if (errno == EEXIST) {
      return CheckReplaceable(path, existing);
    }
    if (errno != EINVAL && errno != ENOSYS) {
      return SystemError("rename into", path, errno);
    }
    // A file system without that call: two names for a moment, where it has links.
    if (::linkat(folder, from.c_str(), folder, to.c_str(), 0) == 0) {
      ::unlinkat(folder, from.c_str(), 0);
      return {};
    }
    if (errno == EEXIST) {
      return CheckReplaceable(path, existing);
    }
    MSP_RETURN_IF_ERROR(CheckReplaceable(path, existing));  // neither call is known there
  }
  if (::renameat(folder, from.c_str(), folder, to.c_str()) != 0) {
    return SystemError("rename into", path, errno);
  }
  return {};
}

// See new_folders.h.
struct NewFolders {
  std::mutex mutex;
  bool noted = false;
  std::vector<Path> paths;  // outer ones first
};
NewFolders g_new_folders;

}  // namespace

Status SystemError(std::string_view action, const Path& path, int error) {
  std::string text = fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(error));
  if (error == ENOENT) {
    return NotFoundError(std::move(text));
  }
  Status status = IoError(std::move(text));
  if (error == EACCES) {
    return std::move(status).WithHint(
        "check the owner and permissions of the file and its folders");
  }
  if (error == ENOSPC || error == EDQUOT) {
    return std::move(status).WithHint("free some space or choose another output folder");
  }
  return status;
}

Result<std::string> ReadTextFile(const Path& path, uint64_t limit_bytes) {
  MSP_ASSIGN_OR_RETURN(const InputFile input, InputFile::Open(path));
  const uint64_t size = input.size_bytes();
  if (size > limit_bytes) {
    return UnsupportedError(
        fmt::format("{} has {} bytes, more than the limit of {} for such a file", path.string(),
                    size, limit_bytes));
  }
  std::string text(size, '\0');
  MSP_RETURN_IF_ERROR(ReadAll(input, text));
  return text;
}

void NoteNewFolders() {
  const std::lock_guard lock(g_new_folders.mutex);
  g_new_folders.noted = true;
}

void RemoveEmptyNewFolders() {
  const std::lock_guard lock(g_new_folders.mutex);
  while (!g_new_folders.paths.empty()) {
    ::rmdir(g_new_folders.paths.back().c_str());  // fails where something is in it
    g_new_folders.paths.pop_back();
  }
}

Status CreateFolders(const Path& path) {
  Path partial;
  for (const Path& part : path) {
    partial /= part;
    if (partial.empty() || part == "." || part == "..") {
      continue;
    }
    MSP_ASSIGN_OR_RETURN(const bool is_new, MakeFolder(partial));
    if (!is_new) {
      continue;
    }
    if (const std::lock_guard lock(g_new_folders.mutex); g_new_folders.noted) {
      g_new_folders.paths.push_back(partial);
    }
  }
  return {};
}

// Not by directory_iterator, which ends the process when memory runs out.
Result<std::vector<std::string>> ListFolder(const Path& path) {
  return ListFolderIn(AT_FDCWD, path.native(), path);
}

Result<std::vector<std::string>> ListFolderIn(int beneath, const std::string& name,
                                              const Path& path) {
  Descriptor descriptor(::openat(beneath, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(
      descriptor.is_open() ? ::fdopendir(descriptor.get()) : nullptr, &::closedir);
  if (folder == nullptr) {
    return SystemError("list", path, errno);
  }
  descriptor.Release();  // closed with the folder
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr) {
      break;
    }
    const std::string_view item = entry->d_name;
    if (item != "." && item != "..") {
      names.emplace_back(item);
    }
  }
  if (errno != 0) {
    return SystemError("list", path, errno);
  }
  std::sort(names.begin(), names.end());
  return names;
}

FileBytes::FileBytes(FileBytes&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), mapping_(std::exchange(other.mapping_, nullptr)) {}

FileBytes& FileBytes::operator=(FileBytes&& other) noexcept {
  if (this != &other) {
    Release();
    bytes_ = std::exchange(other.bytes_, {});
    mapping_ = std::exchange(other.mapping_, nullptr);
  }
  return *this;
}

FileBytes::~FileBytes() { Release(); }

void FileBytes::Release() {
  if (mapping_ != nullptr) {
    RemoveMappedFile(bytes_);
    ::munmap(mapping_, bytes_.size());
    mapping_ = nullptr;
  }
  bytes_ = {};
}

void FileBytes::ReleasePages(std::span<const std::byte> part) const {
  if (mapping_ == nullptr || part.empty()) {
    return;
  }
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + part.size()) / page * page;
  if (first < last) {
    ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
}

Result<FileBytes> FileBytes::Open(const Path& path, std::vector<std::byte>* scratch) {
  MSP_ASSIGN_OR_RETURN(const InputFile input, InputFile::Open(path));
  const uint64_t size = input.size_bytes();
  FileBytes file;
  if (size == 0) {
    return file;
  }
  if (scratch != nullptr && size <= kReadBelowBytes) {
    if (scratch->size() < size) {
      scratch->resize(kReadBelowBytes);
    }
    MSP_RETURN_IF_ERROR(
        ReadAll(input, {reinterpret_cast<char*>(scratch->data()), static_cast<size_t>(size)}));
    file.bytes_ = {scratch->data(), static_cast<size_t>(size)};
    return file;
  }
  // Of a small file all pages at once: each fault costs more than what it maps.
  const int all_pages = size <= kMapAtOnceBytes ? MAP_POPULATE : 0;
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | all_pages, input.descriptor(), 0);
  if (mapping == MAP_FAILED) {
    return SystemError("map", path, errno);
  }
  ::madvise(mapping, size, MADV_SEQUENTIAL);
  file.mapping_ = mapping;
  file.bytes_ = {static_cast<const std::byte*>(mapping), static_cast<size_t>(size)};
  AddMappedFile(file.bytes_, path);
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : folder_(std::exchange(other.folder_, -1)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      lock_(std::exchange(other.lock_, -1)),
      exists_(std::exchange(other.exists_, false)),
      cleanup_slot_(std::exchange(other.cleanup_slot_, -1)),
      existing_(other.existing_),
      size_bytes_(other.size_bytes_),
      final_path_(std::move(other.final_path_)),
      temporary_name_(std::move(other.temporary_name_)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this != &other) {
    Discard();
    folder_ = std::exchange(other.folder_, -1);
    descriptor_ = std::exchange(other.descriptor_, -1);
    lock_ = std::exchange(other.lock_, -1);
    exists_ = std::exchange(other.exists_, false);
    cleanup_slot_ = std::exchange(other.cleanup_slot_, -1);
    existing_ = other.existing_;
    size_bytes_ = other.size_bytes_;
    final_path_ = std::move(other.final_path_);
    temporary_name_ = std::move(other.temporary_name_);
  }
  return *this;
}

AtomicFile::~AtomicFile() { Discard(); }

void AtomicFile::Discard() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
  if (exists_) {
    ::unlinkat(folder_, temporary_name_.c_str(), 0);
    exists_ = false;
  }
  if (lock_ >= 0) {
    ::close(std::exchange(lock_, -1));
  }
  if (folder_ >= 0) {
    ::close(std::exchange(folder_, -1));
  }
  ForgetOnInterrupt(std::exchange(cleanup_slot_, -1));
}

Result<AtomicFile> AtomicFile::Create(const Path& final_path) {
  return Create(final_path, ExistingFiles());
}

Result<AtomicFile> AtomicFile::Create(const Path& final_path, Existing existing) {
  static std::atomic<uint64_t> counter{0};
  MSP_RETURN_IF_ERROR(CheckReplaceable(final_path, existing));
  AtomicFile file;
  file.existing_ = existing;
  file.final_path_ = final_path;
  const std::string folder = FolderOf(final_path);
  file.folder_ = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (file.folder_ < 0) {
    return SystemError("create", final_path, errno);
  }
  RemoveAbandonedIn(file.folder_);
  // Another host or container may have the same process number, and a killed run leaves its file.
  constexpr int kAttempts = 1000;
  int error = EEXIST;
  for (int attempt = 0; attempt < kAttempts && error == EEXIST; ++attempt) {
    // Names have 255 bytes at most: a long final name must not make the temporary one impossible.
    file.temporary_name_ = fmt::format(".msprobe-{}-{}.tmp", ::getpid(), counter.fetch_add(1));
    file.cleanup_slot_ = RemoveOnInterrupt(fmt::format("{}/{}", folder, file.temporary_name_));
    file.descriptor_ = ::openat(file.folder_, file.temporary_name_.c_str(),
                                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kFileMode);
    if (file.descriptor_ >= 0 && MarkUnfinished(file.descriptor_)) {
      file.exists_ = true;
      return file;
    }
    if (file.descriptor_ >= 0) {  // taken for a leftover before it was marked
      ::close(std::exchange(file.descriptor_, -1));
      errno = EEXIST;
    }
    error = errno;
    ForgetOnInterrupt(std::exchange(file.cleanup_slot_, -1));
  }
  return SystemError("create", final_path, error);
}

Status AtomicFile::Write(std::string_view text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return SystemError("write", final_path_, errno);
    }
    done += static_cast<size_t>(count);
  }
  size_bytes_ += text.size();
  return {};
}

Status AtomicFile::Write(std::span<const std::byte> bytes) {
  return Write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Status AtomicFile::WriteAt(uint64_t offset, std::string_view text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::pwrite(descriptor_, text.data() + done, text.size() - done,
                                   static_cast<off_t>(offset + done));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return SystemError("write", final_path_, errno);
    }
    done += static_cast<size_t>(count);
  }
  return {};
}

Status AtomicFile::Reserve(uint64_t bytes) {
  // Not posix_fallocate: where the file system cannot, it writes zeros instead.
  if (::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    return SystemError("write", final_path_, errno);
  }
  return {};
}

Status AtomicFile::Close() {
  if (descriptor_ >= 0 && lock_ < 0) {
    lock_ = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  }
  // close() can report a delayed write error (network file systems, quotas).
  if (descriptor_ >= 0 && ::close(std::exchange(descriptor_, -1)) != 0) {
    return SystemError("write", final_path_, errno);
  }
  return {};
}

Status AtomicFile::TakeAccessOf(const Path& other) {
  struct stat facts = {};
  if (::stat(other.c_str(), &facts) != 0) {
    return SystemError("read", other, errno);
  }
  // A change of the owner takes the right to read away from others: first the owner.
  if (::fchown(descriptor_, facts.st_uid, facts.st_gid) != 0 && errno != EPERM) {
    return SystemError("change", final_path_, errno);
  }
  constexpr mode_t kPermissions = 0777;
  if (::fchmod(descriptor_, facts.st_mode & kPermissions) != 0) {
    return SystemError("change", final_path_, errno);
  }
  return {};
}

Status AtomicFile::Commit() {
  MSP_RETURN_IF_ERROR(CheckMappedFiles());
  MSP_RETURN_IF_ERROR(Close());
  if (existing_ == Existing::kReplace) {  // the system refuses otherwise
    MSP_RETURN_IF_ERROR(CheckReplaceable(final_path_, existing_));
  }
  MSP_RETURN_IF_ERROR(RenameWithin(folder_, temporary_name_, final_path_.filename().native(),
                                   final_path_, existing_));
  exists_ = false;
  Discard();
  return {};
}

Status RenameIntoPlace(const Path& from, const Path& to, Existing existing) {
  MSP_RETURN_IF_ERROR(CheckReplaceable(to, existing));
  return RenameWithin(AT_FDCWD, from.native(), to.native(), to, existing);
}

Status WriteFileAtomically(const Path& path, std::string_view text) {
  return WriteFileAtomically(path, text, ExistingFiles());
}

Status WriteFileAtomically(const Path& path, std::string_view text, Existing existing) {
  MSP_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path, existing));
  MSP_RETURN_IF_ERROR(file.Write(text));
  return file.Commit();
}

}  // namespace msprobe::base
