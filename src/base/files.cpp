#include "src/base/files.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/mapped_reads.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"

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

// For ReadMapped(), of large files; not of all where there are very many, as a process may have
// 1,024 descriptors.
void KeepDescriptor(std::span<const std::byte> bytes, int descriptor);

// See output_files.h.
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

namespace {

Status MakeAndNoteFolder(const Path& path) {
  MSP_ASSIGN_OR_RETURN(const bool is_new, MakeFolder(path));
  if (const std::lock_guard lock(g_new_folders.mutex); is_new && g_new_folders.noted) {
    g_new_folders.paths.push_back(path);
  }
  return {};
}

}  // namespace

Status CreateFolders(const Path& path) {
  // Mostly those above are there, and asking for each costs as much as making one.
  const Path above = path.parent_path();
  struct stat there {};
  if (path.has_filename() && path.filename() != "." && path.filename() != ".." && !above.empty() &&
      ::stat(above.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) {
    return MakeAndNoteFolder(path);
  }
  Path partial;
  for (const Path& part : path) {
    partial /= part;
    if (!partial.empty() && part != "." && part != "..") {
      MSP_RETURN_IF_ERROR(MakeAndNoteFolder(partial));
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
  if (scratch != nullptr && size <= std::max(kReadBelowBytes, scratch->capacity())) {
    if (scratch->size() < size) {
      scratch->resize(std::max<size_t>(kReadBelowBytes, size));
    }
    MSP_RETURN_IF_ERROR(
        ReadAll(input, {reinterpret_cast<char*>(scratch->data()), static_cast<size_t>(size)}));
    file.bytes_ = {scratch->data(), static_cast<size_t>(size)};
    return file;
  }
  // Small files are mapped with all pages at once: each fault costs more than what it maps.
  const int all_pages = size <= kMapAtOnceBytes ? MAP_POPULATE : 0;
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | all_pages, input.descriptor(), 0);
  if (mapping == MAP_FAILED) {
    return SystemError("map", path, errno);
  }
  ::madvise(mapping, size, MADV_SEQUENTIAL);
  file.mapping_ = mapping;
  file.bytes_ = {static_cast<const std::byte*>(mapping), static_cast<size_t>(size)};
  AddMappedFile(file.bytes_, path);
  KeepDescriptor(file.bytes_, input.descriptor());
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

namespace {

// Fixed memory only: the handler may not allocate or lock. More files than that are not guarded.
constexpr size_t kMostFiles = 16384;

struct MappingSlot {
  std::atomic<uintptr_t> begin{0};  // 0: free
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> shrank{false};
  std::atomic<int> descriptor{-1};  // for ReadMapped, or -1
};

std::array<MappingSlot, kMostFiles> g_mappings;
std::atomic<size_t> g_used{0};  // slots behind these were never taken
std::atomic<bool> g_guarded{false};
std::atomic<uintptr_t> g_page{4096};

// State that the handler does not touch.
std::mutex g_mutex;
std::array<std::string*, kMostFiles> g_paths{};
std::array<bool, kMostFiles> g_told{};
std::string g_untold;   // a file that shrank and is mapped no more
int g_descriptors = 0;  // that are kept

MappingSlot* SlotOf(uintptr_t address) {
  const size_t used = g_used.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    const uintptr_t begin = g_mappings[i].begin.load(std::memory_order_acquire);
    if (begin != 0 && begin <= address && address < g_mappings[i].end.load()) {
      return &g_mappings[i];
    }
  }
  return nullptr;
}

extern "C" void PutZeros(int number, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  MappingSlot* const slot = info->si_code == BUS_ADRERR ? SlotOf(address) : nullptr;
  if (slot != nullptr) {
    const uintptr_t page = g_page.load();
    const uintptr_t first = address / page * page;
    const uintptr_t last = (slot->end.load() + page - 1) / page * page;
    if (::mmap(reinterpret_cast<void*>(first), last - first, PROT_READ,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
      slot->shrank.store(true);
      return;
    }
  }
  std::signal(number, SIG_DFL);  // the same look again ends the process, as it would have
}

Status Shrank(const std::string& path) {
  return IoError(fmt::format("{} shrank while it was read", path))
      .WithHint("wait until it is written, then run this again");
}

// Cut within its last page a file reads as zeros without any signal. g_mutex held.
bool HasShrunk(size_t index) {
  MappingSlot& slot = g_mappings[index];
  if (slot.shrank.load()) {
    return true;
  }
  struct stat now {};
  return g_paths[index] != nullptr && ::stat(g_paths[index]->c_str(), &now) == 0 &&
         static_cast<uintptr_t>(now.st_size) < slot.end.load() - slot.begin.load();
}

}  // namespace

void GuardMappedFiles() {
  g_page.store(static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)));
  struct sigaction action {};
  action.sa_sigaction = &PutZeros;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigemptyset(&action.sa_mask);
  g_guarded.store(::sigaction(SIGBUS, &action, nullptr) == 0);
}

void AddMappedFile(std::span<const std::byte> bytes, const Path& path) {
  if (!g_guarded.load() || bytes.empty()) {
    return;
  }
  const std::lock_guard lock(g_mutex);
  for (size_t i = 0; i < kMostFiles; ++i) {
    if (g_mappings[i].begin.load() == 0) {
      g_paths[i] = new std::string(path.string());
      g_told[i] = false;
      g_mappings[i].shrank.store(false);
      const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
      g_mappings[i].end.store(begin + bytes.size());
      g_mappings[i].begin.store(begin, std::memory_order_release);
      if (i >= g_used.load()) {
        g_used.store(i + 1, std::memory_order_release);
      }
      return;
    }
  }
}

void RemoveMappedFile(std::span<const std::byte> bytes) {
  if (!g_guarded.load() || bytes.empty()) {
    return;
  }
  const std::lock_guard lock(g_mutex);
  MappingSlot* const slot = SlotOf(reinterpret_cast<uintptr_t>(bytes.data()));
  if (slot == nullptr) {
    return;
  }
  const auto index = static_cast<size_t>(slot - g_mappings.data());
  if (!g_told[index] && HasShrunk(index)) {
    g_untold = *g_paths[index];
  }
  slot->begin.store(0, std::memory_order_release);
  if (const int descriptor = slot->descriptor.exchange(-1); descriptor >= 0) {
    ::close(descriptor);
    --g_descriptors;
  }
  delete g_paths[index];
  g_paths[index] = nullptr;
}

std::span<const std::byte> ReadMapped(std::span<const std::byte> part,
                                      std::vector<std::byte>& scratch) {
  if (!g_guarded.load() || part.empty()) {
    return part;
  }
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const MappingSlot* const slot = SlotOf(begin);
  const int descriptor = slot == nullptr ? -1 : slot->descriptor.load();
  if (descriptor < 0 || part.size() > slot->end.load() - begin) {
    return part;
  }
  scratch.resize(std::max(scratch.size(), part.size()));
  const uintptr_t offset = begin - slot->begin.load();
  for (size_t done = 0; done < part.size();) {
    const ssize_t count = ::pread(descriptor, scratch.data() + done, part.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return part;  // a look at the mapping finds out what has happened to the file
    }
    done += static_cast<size_t>(count);
  }
  return {scratch.data(), part.size()};
}

void FilesAhead::Took(size_t item, uint64_t bytes, std::chrono::steady_clock::duration time) {
  constexpr double kSlowBytesPerSecond = 1.5e9;
  constexpr uint64_t kBytesAhead = uint64_t{48} << 20U;
  constexpr uint64_t kMostItemsAhead = 256;
  if (bytes == 0 ||
      static_cast<double>(bytes) >
          std::chrono::duration<double>(time).count() * kSlowBytesPerSecond ||
      is_asking_.test_and_set(std::memory_order_acquire)) {
    return;
  }
  const uint64_t ahead = std::clamp<uint64_t>(kBytesAhead / bytes, 1, kMostItemsAhead);
  const size_t end = std::min<size_t>(items_, item + 1 + ahead);
  for (next_ = std::max(next_, item + 1); next_ < end; ++next_) {
    for (const Path& path : files_of_(next_)) {
      if (const Result<InputFile> file = InputFile::Open(path); file.ok()) {
        ::posix_fadvise(file->descriptor(), 0, static_cast<off_t>(kBytesAhead),
                        POSIX_FADV_WILLNEED);
      }
    }
  }
  is_asking_.clear(std::memory_order_release);
}

namespace {

void KeepDescriptor(std::span<const std::byte> bytes, int descriptor) {
  constexpr uint64_t kKeptFromBytes = uint64_t{1} << 20U;
  constexpr int kMostDescriptors = 256;
  if (!g_guarded.load() || bytes.size() < kKeptFromBytes) {
    return;
  }
  const std::lock_guard lock(g_mutex);
  MappingSlot* const slot = SlotOf(reinterpret_cast<uintptr_t>(bytes.data()));
  if (slot == nullptr || g_descriptors == kMostDescriptors) {
    return;
  }
  const int kept = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  slot->descriptor.store(kept);
  g_descriptors += kept >= 0 ? 1 : 0;
}

}  // namespace

Status CheckMappedFile(std::span<const std::byte> part) {
  if (!g_guarded.load() || part.empty()) {
    return {};
  }
  const std::lock_guard lock(g_mutex);
  MappingSlot* const slot = SlotOf(reinterpret_cast<uintptr_t>(part.data()));
  const auto index = static_cast<size_t>(slot == nullptr ? 0 : slot - g_mappings.data());
  if (slot == nullptr || !HasShrunk(index)) {
    return {};
  }
  g_told[index] = true;
  return Shrank(*g_paths[index]);
}

Status CheckMappedFiles() {
  if (!g_guarded.load()) {
    return {};
  }
  const std::lock_guard lock(g_mutex);
  for (size_t i = 0; i < g_used.load(); ++i) {
    if (g_mappings[i].begin.load() != 0 && !g_told[i] && HasShrunk(i)) {
      return Shrank(*g_paths[i]);
    }
  }
  return g_untold.empty() ? Status() : Shrank(g_untold);
}

}  // namespace msprobe::base
