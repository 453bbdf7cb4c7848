// A library to preload: makes chosen calls of a program into the C library fail, end the process,
// or tell another time.
//
// The variable FAULT_PLAN names a file of lines "KEY VALUE" (a file, because the environment can be
// part of a result):
//
//   program  short name of the program it is about; in any other (a child, a shell) it does nothing
//   call     the family of calls: open, read, write, map, rename, ... (kNames)
//   at       the first call that is hit, counted from 1 over all threads; nothing is hit without it
//   last     the last call that is hit (default: only that one); 0: from there on every one
//   how      an errno as a number; "short": half of the bytes; "kill": SIGKILL before the call;
//            "torn": SIGKILL after half of the bytes
//   report   a file that gets a line for each call that was hit, and how many calls of each family
//            there were
//   process  the number that the process takes itself for: it stands in names of files
//   clock    "frozen": the time of day stands still; "back": each look at it is a minute earlier
//            than the one before
//   caller   allocations count only from within a library whose path contains this
//
// A program that runs on chooses calls by itself, again and again: fault_refuse_memory().
//
// It uses nothing of the C++ library, so that it changes nothing in programs that bring their own.
#include <cerrno>
#include <cstdarg>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/fault_plan.h"

// What glibc offers beside its public names, for libraries like this one.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

using namespace faults;  // NOLINT: this file is nothing but its calls

namespace {

bool IsStandardOutput(FILE* stream) { return stream == stdout; }

// As the C library marks a stream whose buffer could not be written.
int FailStream(FILE* stream) {
  constexpr int kErrorSeen = 0x20;
  stream->_flags |= kErrorSeen;
  return EOF;
}

}  // namespace

#define REFUSED IsRefused(__builtin_return_address(0))

// ---- files ----

#define MODE_OF(flags)                          \
  mode_t mode = 0;                              \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list more;                               \
    va_start(more, flags);                      \
    mode = va_arg(more, mode_t);                \
    va_end(more);                               \
  }

EXPORTED int open(const char* path, int flags, ...) {
  MODE_OF(flags)
  NEXT(open);
  return Count(kOpen).is ? -1 : next(path, flags, mode);
}
EXPORTED int open64(const char* path, int flags, ...) {
  MODE_OF(flags)
  NEXT(open64);
  return Count(kOpen).is ? -1 : next(path, flags, mode);
}
EXPORTED int openat(int folder, const char* path, int flags, ...) {
  MODE_OF(flags)
  NEXT(openat);
  return Count(kOpen).is ? -1 : next(folder, path, flags, mode);
}
EXPORTED int openat64(int folder, const char* path, int flags, ...) {
  MODE_OF(flags)
  NEXT(openat64);
  return Count(kOpen).is ? -1 : next(folder, path, flags, mode);
}
// What the fortified headers make of flags that are no constants.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" int __openat_2(int folder, const char* path, int flags);
// NOLINTNEXTLINE(bugprone-reserved-identifier)
EXPORTED int __openat_2(int folder, const char* path, int flags) {
  NEXT(__openat_2);
  return Count(kOpen).is ? -1 : next(folder, path, flags);
}
EXPORTED FILE* fopen(const char* path, const char* mode) {
  NEXT(fopen);
  return Count(kOpen).is ? nullptr : next(path, mode);
}
EXPORTED FILE* fopen64(const char* path, const char* mode) {
  NEXT(fopen64);
  return Count(kOpen).is ? nullptr : next(path, mode);
}

EXPORTED ssize_t read(int file, void* out, size_t bytes) {
  NEXT(read);
  const Hit hit = Count(kRead, true);
  return !hit.is ? next(file, out, bytes) : hit.how == kShort ? next(file, out, Half(bytes)) : -1;
}
EXPORTED ssize_t pread(int file, void* out, size_t bytes, off_t at) {
  NEXT(pread);
  const Hit hit = Count(kRead, true);
  return !hit.is             ? next(file, out, bytes, at)
         : hit.how == kShort ? next(file, out, Half(bytes), at)
                             : -1;
}
EXPORTED ssize_t pread64(int file, void* out, size_t bytes, off64_t at) {
  NEXT(pread64);
  const Hit hit = Count(kRead, true);
  return !hit.is             ? next(file, out, bytes, at)
         : hit.how == kShort ? next(file, out, Half(bytes), at)
                             : -1;
}

EXPORTED ssize_t write(int file, const void* data, size_t bytes) {
  NEXT(write);
  const Hit hit = Count(kWrite, true);
  if (!hit.is) {
    return next(file, data, bytes);
  }
  if (hit.how == kErrno) {
    return -1;
  }
  const ssize_t done = next(file, data, Half(bytes));
  if (hit.how == kTorn) {
    Die();
  }
  return done;
}
EXPORTED ssize_t pwrite(int file, const void* data, size_t bytes, off_t at) {
  NEXT(pwrite);
  const Hit hit = Count(kWrite, true);
  if (!hit.is) {
    return next(file, data, bytes, at);
  }
  if (hit.how == kErrno) {
    return -1;
  }
  const ssize_t done = next(file, data, Half(bytes), at);
  if (hit.how == kTorn) {
    Die();
  }
  return done;
}
EXPORTED ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t at) {
  return pwrite(file, data, bytes, at);
}
EXPORTED ssize_t writev(int file, const iovec* parts, int count) {
  NEXT(writev);
  return Count(kWrite).is ? -1 : next(file, parts, count);
}

EXPORTED void* mmap(void* address, size_t bytes, int protection, int flags, int file,
                    off_t at) noexcept {
  NEXT(mmap);
  return Count(kMap).is ? MAP_FAILED : next(address, bytes, protection, flags, file, at);
}
EXPORTED void* mmap64(void* address, size_t bytes, int protection, int flags, int file,
                      off64_t at) noexcept {
  NEXT(mmap64);
  return Count(kMap).is ? MAP_FAILED : next(address, bytes, protection, flags, file, at);
}

EXPORTED int rename(const char* from, const char* to) noexcept {
  NEXT(rename);
  return Count(kRename).is ? -1 : next(from, to);
}
EXPORTED int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  NEXT(renameat);
  return Count(kRename).is ? -1 : next(from_folder, from, to_folder, to);
}
EXPORTED int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                       unsigned flags) noexcept {
  NEXT(renameat2);
  return Count(kRename).is ? -1 : next(from_folder, from, to_folder, to, flags);
}
EXPORTED int link(const char* from, const char* to) noexcept {
  NEXT(link);
  return Count(kRename).is ? -1 : next(from, to);
}
EXPORTED int linkat(int from_folder, const char* from, int to_folder, const char* to,
                    int flags) noexcept {
  NEXT(linkat);
  return Count(kRename).is ? -1 : next(from_folder, from, to_folder, to, flags);
}

EXPORTED int fsync(int file) {
  NEXT(fsync);
  return Count(kSync).is ? -1 : next(file);
}
EXPORTED int fdatasync(int file) {
  NEXT(fdatasync);
  return Count(kSync).is ? -1 : next(file);
}

EXPORTED int mkdir(const char* path, mode_t mode) noexcept {
  NEXT(mkdir);
  return Count(kFolder).is ? -1 : next(path, mode);
}
EXPORTED int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  NEXT(mkdirat);
  return Count(kFolder).is ? -1 : next(folder, path, mode);
}

EXPORTED DIR* opendir(const char* path) {
  NEXT(opendir);
  return Count(kList).is ? nullptr : next(path);
}
EXPORTED DIR* fdopendir(int file) {
  NEXT(fdopendir);
  return Count(kList).is ? nullptr : next(file);
}
EXPORTED dirent* readdir(DIR* folder) {
  NEXT(readdir);
  return Count(kList).is ? nullptr : next(folder);
}

EXPORTED int unlink(const char* path) noexcept {
  NEXT(unlink);
  return Count(kRemove).is ? -1 : next(path);
}
EXPORTED int unlinkat(int folder, const char* path, int flags) noexcept {
  NEXT(unlinkat);
  return Count(kRemove).is ? -1 : next(folder, path, flags);
}
EXPORTED int rmdir(const char* path) noexcept {
  NEXT(rmdir);
  return Count(kRemove).is ? -1 : next(path);
}
EXPORTED int remove(const char* path) noexcept {
  NEXT(remove);
  return Count(kRemove).is ? -1 : next(path);
}

EXPORTED int close(int file) {
  NEXT(close);
  const bool hit = Count(kClose).is;
  const int closed = next(file);  // what fails is the delayed write, the number is free again
  if (hit) {
    errno = WantedErrno();
    return -1;
  }
  return closed;
}

EXPORTED int ftruncate(int file, off_t bytes) noexcept {
  NEXT(ftruncate);
  return Count(kSize).is ? -1 : next(file, bytes);
}
EXPORTED int ftruncate64(int file, off64_t bytes) noexcept {
  NEXT(ftruncate64);
  return Count(kSize).is ? -1 : next(file, bytes);
}
EXPORTED int fallocate(int file, int mode, off_t at, off_t bytes) {
  NEXT(fallocate);
  return Count(kSize).is ? -1 : next(file, mode, at, bytes);
}

EXPORTED int flock(int file, int operation) noexcept {
  NEXT(flock);
  return Count(kLock).is ? -1 : next(file, operation);
}

// The released program asks for newer calls by their numbers (cmake/older_glibc).
EXPORTED long syscall(long number, ...) noexcept {
  long arguments[6];
  va_list more;
  va_start(more, number);
  for (long& argument : arguments) {
    argument = va_arg(more, long);
  }
  va_end(more);
  const Family family = number == SYS_renameat2 ? kRename
                        : number == SYS_newfstatat || number == SYS_fstat || number == SYS_statx
                            ? kStat
                            : kFamilies;
  if (family != kFamilies && Count(family).is) {
    return -1;
  }
  static auto* const next = Next<long (*)(long, ...)>("syscall");
  return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
              arguments[5]);
}

// ---- processes, threads, memory ----

EXPORTED int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                            void* (*body)(void*), void* argument) noexcept {
  NEXT(pthread_create);
  return Count(kThread).is ? WantedErrno() : next(thread, attributes, body, argument);
}

EXPORTED int posix_spawn(pid_t* process, const char* path,
                         const posix_spawn_file_actions_t* actions,
                         const posix_spawnattr_t* attributes, char* const* arguments,
                         char* const* environment) noexcept {
  NEXT(posix_spawn);
  return Count(kSpawn).is ? WantedErrno()
                          : next(process, path, actions, attributes, arguments, environment);
}
EXPORTED int posix_spawnp(pid_t* process, const char* file,
                          const posix_spawn_file_actions_t* actions,
                          const posix_spawnattr_t* attributes, char* const* arguments,
                          char* const* environment) noexcept {
  NEXT(posix_spawnp);
  return Count(kSpawn).is ? WantedErrno()
                          : next(process, file, actions, attributes, arguments, environment);
}
EXPORTED int pipe2(int* ends, int flags) noexcept {
  NEXT(pipe2);
  return Count(kSpawn).is ? -1 : next(ends, flags);
}

EXPORTED pid_t getpid() noexcept {
  return ToldProcess() != 0 ? ToldProcess() : static_cast<pid_t>(::syscall(SYS_getpid));
}

EXPORTED void* malloc(size_t bytes) noexcept { return REFUSED ? nullptr : __libc_malloc(bytes); }
EXPORTED void* calloc(size_t count, size_t bytes) noexcept {
  return REFUSED ? nullptr : __libc_calloc(count, bytes);
}
EXPORTED void* realloc(void* old, size_t bytes) noexcept {
  return REFUSED ? nullptr : __libc_realloc(old, bytes);
}
EXPORTED void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return REFUSED ? nullptr : __libc_memalign(alignment, bytes);
}
EXPORTED int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  void* const memory = REFUSED ? nullptr : __libc_memalign(alignment, bytes);
  if (memory == nullptr) {
    return ENOMEM;
  }
  *out = memory;
  return 0;
}

// ---- the standard output; the standard error may fail as it likes ----

EXPORTED size_t fwrite(const void* data, size_t bytes, size_t count, FILE* stream) {
  NEXT(fwrite);
  if (IsStandardOutput(stream) && Count(kPrint).is) {
    FailStream(stream);
    return 0;
  }
  return next(data, bytes, count, stream);
}
EXPORTED int fputs(const char* text, FILE* stream) {
  NEXT(fputs);
  return IsStandardOutput(stream) && Count(kPrint).is ? FailStream(stream) : next(text, stream);
}
EXPORTED int fflush(FILE* stream) {
  NEXT(fflush);
  return IsStandardOutput(stream) && Count(kPrint).is ? FailStream(stream) : next(stream);
}

// ---- time ----

EXPORTED int clock_gettime(clockid_t clock, timespec* out) noexcept {
  NEXT(clock_gettime);
  const int got = next(clock, out);
  if (got == 0 && HasOwnClock() && clock == CLOCK_REALTIME) {
    *out = {ChangedTime(), 0};
  }
  return got;
}
EXPORTED int gettimeofday(timeval* out, void* zone) noexcept {
  NEXT(gettimeofday);
  const int got = next(out, zone);
  if (got == 0 && HasOwnClock()) {
    *out = {ChangedTime(), 0};
  }
  return got;
}
EXPORTED time_t time(time_t* out) noexcept {
  NEXT(time);
  const time_t now = HasOwnClock() ? ChangedTime() : next(nullptr);
  if (out != nullptr) {
    *out = now;
  }
  return now;
}
