#include "src/database/descriptor_vfs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/numbers.h"

namespace msprobe::database {
namespace {

constexpr const char* kVfsName = "msprobe-descriptor";

// In the place that SQLite sets aside for a file; `base` first, as it looks there for the methods.
struct OpenedFile {
  sqlite3_file base;
  int descriptor;
  int last_error;
};

OpenedFile& FileOf(sqlite3_file* file) { return *reinterpret_cast<OpenedFile*>(file); }

int Close(sqlite3_file* /*file*/) { return SQLITE_OK; }

int Read(sqlite3_file* file, void* bytes, int count, sqlite3_int64 offset) {
  auto* out = static_cast<char*>(bytes);
  OpenedFile& opened = FileOf(file);
  int done = 0;
  while (done < count) {
    const ssize_t got = ::pread(opened.descriptor, out + done, static_cast<size_t>(count - done),
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      opened.last_error = errno;
      return SQLITE_IOERR_READ;
    }
    if (got == 0) {
      opened.last_error = 0;
      std::memset(out + done, 0, static_cast<size_t>(count - done));  // as SQLite asks for
      return SQLITE_IOERR_SHORT_READ;
    }
    done += static_cast<int>(got);
  }
  return SQLITE_OK;
}

int Size(sqlite3_file* file, sqlite3_int64* size) {
  OpenedFile& opened = FileOf(file);
  struct stat about {};
  if (::fstat(opened.descriptor, &about) != 0) {
    opened.last_error = errno;
    return SQLITE_IOERR_FSTAT;
  }
  *size = about.st_size;
  return SQLITE_OK;
}

int Control(sqlite3_file* file, int what, void* answer) {
  if (what != SQLITE_FCNTL_LAST_ERRNO) {
    return SQLITE_NOTFOUND;
  }
  *static_cast<int*>(answer) = FileOf(file).last_error;
  return SQLITE_OK;
}

int RefuseWrite(sqlite3_file* /*file*/, const void* /*bytes*/, int /*count*/,
                sqlite3_int64 /*at*/) {
  return SQLITE_READONLY;
}
int RefuseTruncate(sqlite3_file* /*file*/, sqlite3_int64 /*size*/) { return SQLITE_READONLY; }
int Sync(sqlite3_file* /*file*/, int /*flags*/) { return SQLITE_OK; }
int Lock(sqlite3_file* /*file*/, int /*kind*/) { return SQLITE_OK; }
int CheckLock(sqlite3_file* /*file*/, int* is_locked) {
  *is_locked = 0;
  return SQLITE_OK;
}
int SectorSize(sqlite3_file* /*file*/) { return 4096; }
int Characteristics(sqlite3_file* /*file*/) { return SQLITE_IOCAP_IMMUTABLE; }

const sqlite3_io_methods kMethods = {
    1,       &Close,     &Read,    &RefuseWrite, &RefuseTruncate,  &Sync,   &Size,   &Lock,
    &Lock,   &CheckLock, &Control, &SectorSize,  &Characteristics, nullptr, nullptr, nullptr,
    nullptr, nullptr,    nullptr};

sqlite3_vfs* Usual(sqlite3_vfs* vfs) { return static_cast<sqlite3_vfs*>(vfs->pAppData); }

int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* got_flags) {
  file->pMethods = nullptr;
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) {
    return name == nullptr ? Usual(vfs)->xOpen(Usual(vfs), name, file, flags, got_flags)
                           : SQLITE_CANTOPEN;  // journals beside it are not looked for
  }
  const std::string_view text = name == nullptr ? "" : name;
  const std::optional<int64_t> number =
      text.starts_with('/') ? base::ParseInt(text.substr(1)) : std::nullopt;
  if (!number || (flags & SQLITE_OPEN_READONLY) == 0) {
    return SQLITE_CANTOPEN;
  }
  FileOf(file) = {{&kMethods}, static_cast<int>(*number), 0};
  if (got_flags != nullptr) {
    *got_flags = flags;
  }
  return SQLITE_OK;
}

int Delete(sqlite3_vfs* /*vfs*/, const char* /*name*/, int /*sync*/) {
  return SQLITE_IOERR_DELETE_NOENT;
}
int Access(sqlite3_vfs* /*vfs*/, const char* /*name*/, int /*what*/, int* is_there) {
  *is_there = 0;
  return SQLITE_OK;
}
int FullName(sqlite3_vfs* /*vfs*/, const char* name, int room, char* out) {
  const size_t length = std::strlen(name);
  if (room <= 0 || length >= static_cast<size_t>(room)) {
    return SQLITE_CANTOPEN;
  }
  std::memcpy(out, name, length + 1);
  return SQLITE_OK;
}

}  // namespace

const char* DescriptorVfs() {
  static const bool registered = [] {
    sqlite3_vfs* const usual = sqlite3_vfs_find(nullptr);
    if (usual == nullptr) {
      return false;
    }
    static sqlite3_vfs own;
    own = *usual;  // randomness, time, sleeping
    own.szOsFile = std::max(usual->szOsFile, static_cast<int>(sizeof(OpenedFile)));
    own.pNext = nullptr;
    own.zName = kVfsName;
    own.pAppData = usual;
    own.xOpen = &Open;
    own.xDelete = &Delete;
    own.xAccess = &Access;
    own.xFullPathname = &FullName;
    return sqlite3_vfs_register(&own, 0) == SQLITE_OK;
  }();
  return registered ? kVfsName : nullptr;
}

}  // namespace msprobe::database
