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
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
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

// What glibc offers beside its public names, for libraries like this one.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
extern char* program_invocation_short_name;
}

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

enum Family : int {
  kOpen,
  kRead,
  kWrite,
  kMap,
  kRename,
  kSync,
  kFolder,
  kList,
  kRemove,
  kStat,
  kClose,
  kSize,
  kLock,
  kThread,
  kMemory,
  kSpawn,
  kPrint,
  kFamilies
};
constexpr const char* kNames[kFamilies] = {"open",   "read",   "write",  "map",   "rename", "sync",
                                           "folder", "list",   "remove", "stat",  "close",  "size",
                                           "lock",   "thread", "memory", "spawn", "print"};

enum How : int { kErrno, kShort, kStop, kKill, kTorn };

// Plain data: the first calls come before any constructor has run.
bool armed = false;
int wanted_family = -1;
long first_hit = 0;
long last_hit = 0;
int how = kErrno;
int wanted_errno = EIO;
int report = -1;
int clock_kind = 0;  // 1: frozen, 2: back
int told_process = 0;
char caller[64];  // empty: all of them
std::atomic<long> counts[kFamilies];
std::atomic<long> looks_at_clock;

struct Hit {
  bool is = false;
  int how = kErrno;
};

void Append(char*& end, const char* text) {
  while (*text != '\0') {
    *end++ = *text++;
  }
}

void AppendNumber(char*& end, long number) {
  char digits[24];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number > 0);
  while (count > 0) {
    *end++ = digits[--count];
  }
}

void Tell(const char* what, Family family, long number) {
  if (report >= 0) {
    char line[96];
    char* end = line;
    Append(end, what);
    Append(end, " ");
    Append(end, kNames[family]);
    Append(end, " ");
    AppendNumber(end, number);
    Append(end, "\n");
    (void)::syscall(SYS_write, report, line, static_cast<size_t>(end - line));
  }
}

[[noreturn]] void Die() {
  ::syscall(SYS_kill, ::syscall(SYS_getpid), SIGKILL);
  for (;;) {
    ::syscall(SYS_pause);
  }
}

// Counts one call; whether it is one that is hit. Calls that cannot be cut in two are never hit by
// half.
Hit Count(Family family, bool has_bytes = false) {
  if (!armed) {
    return {};
  }
  const long number = counts[family].fetch_add(1) + 1;
  if (family != wanted_family || number < first_hit || (last_hit != 0 && number > last_hit)) {
    return {};
  }
  if ((how == kShort || how == kTorn) && !has_bytes) {
    return {};
  }
  Tell("hit", family, number);
  if (how == kKill) {
    Die();
  }
  if (how == kStop) {
    ::syscall(SYS_kill, ::syscall(SYS_getpid), SIGTERM);
    return {};
  }
  errno = wanted_errno;
  return {true, how};
}

// Whether an allocation that returns to `place` fails.
bool IsRefused(const void* place) {
  if (!armed) {
    return false;
  }
  if (caller[0] != '\0') {
    Dl_info library{};
    if (::dladdr(place, &library) == 0 || library.dli_fname == nullptr ||
        std::strstr(library.dli_fname, caller) == nullptr) {
      return false;
    }
  }
  return Count(kMemory).is;
}
#define REFUSED IsRefused(__builtin_return_address(0))

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// The real function of a name, looked up once.
#define NEXT(name) static auto* const next = Next<decltype(&::name)>(#name)

size_t Half(size_t bytes) { return bytes <= 1 ? bytes : bytes / 2; }

bool IsStandardOutput(FILE* stream) { return stream == stdout; }

// As the C library marks a stream whose buffer could not be written.
int FailStream(FILE* stream) {
  constexpr int kErrorSeen = 0x20;
  stream->_flags |= kErrorSeen;
  return EOF;
}

// The plan, read by system calls that nobody counts.
char plan[4096];

const char* Planned(const char* key) {
  const size_t length = std::strlen(key);
  for (char* line = plan; *line != '\0'; line += std::strlen(line) + 1) {
    if (std::strncmp(line, key, length) == 0 && line[length] == ' ') {
      return line + length + 1;
    }
  }
  return nullptr;
}

bool ReadPlan() {
  const char* const path = ::getenv("FAULT_PLAN");
  const long file =
      path == nullptr ? -1 : ::syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (file < 0) {
    return false;
  }
  const long bytes = ::syscall(SYS_read, static_cast<int>(file), plan, sizeof(plan) - 2);
  ::syscall(SYS_close, static_cast<int>(file));
  for (long i = 0; i < bytes; ++i) {
    if (plan[i] == '\n') {
      plan[i] = '\0';
    }
  }
  const char* const program = Planned("program");
  return program != nullptr && std::strcmp(program, program_invocation_short_name) == 0;
}

__attribute__((constructor)) void Arm() {
  if (!ReadPlan()) {
    return;
  }
  const char* const call = Planned("call");
  const char* const at = Planned("at");
  for (int family = 0; call != nullptr && at != nullptr && family < kFamilies; ++family) {
    if (std::strcmp(call, kNames[family]) == 0) {
      wanted_family = family;
      first_hit = last_hit = std::atol(at);
    }
  }
  if (const char* const last = Planned("last")) {
    last_hit = std::atol(last);
  }
  if (const char* const word = Planned("how")) {
    how = std::strcmp(word, "short") == 0  ? kShort
          : std::strcmp(word, "stop") == 0 ? kStop
          : std::strcmp(word, "kill") == 0 ? kKill
          : std::strcmp(word, "torn") == 0 ? kTorn
                                           : kErrno;
    wanted_errno = how == kErrno ? std::atoi(word) : EIO;
  }
  if (const char* const path = Planned("report")) {
    const long opened =
        ::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    // Out of the way: the program's own files get the numbers that they would have had.
    report = opened < 0 ? -1
                        : static_cast<int>(
                              ::syscall(SYS_fcntl, static_cast<int>(opened), F_DUPFD_CLOEXEC, 900));
    ::syscall(SYS_close, static_cast<int>(opened));
  }
  if (const char* const process = Planned("process")) {
    told_process = std::atoi(process);
  }
  if (const char* const part = Planned("caller")) {
    std::strncpy(caller, part, sizeof(caller) - 1);
  }
  if (const char* const clock = Planned("clock")) {
    clock_kind = std::strcmp(clock, "frozen") == 0 ? 1 : 2;
  }
  armed = true;
}

__attribute__((destructor)) void TellCounts() {
  if (armed) {
    armed = false;
    for (int family = 0; family < kFamilies; ++family) {
      Tell("calls", static_cast<Family>(family), counts[family].load());
    }
  }
}

time_t ChangedTime() {
  constexpr time_t kFrozen = 1700000000;
  return clock_kind == 1 ? kFrozen : kFrozen - 60 * looks_at_clock.fetch_add(1);
}

}  // namespace

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
    errno = wanted_errno;
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
  return Count(kThread).is ? wanted_errno : next(thread, attributes, body, argument);
}

EXPORTED int posix_spawn(pid_t* process, const char* path,
                         const posix_spawn_file_actions_t* actions,
                         const posix_spawnattr_t* attributes, char* const* arguments,
                         char* const* environment) noexcept {
  NEXT(posix_spawn);
  return Count(kSpawn).is ? wanted_errno
                          : next(process, path, actions, attributes, arguments, environment);
}
EXPORTED int posix_spawnp(pid_t* process, const char* file,
                          const posix_spawn_file_actions_t* actions,
                          const posix_spawnattr_t* attributes, char* const* arguments,
                          char* const* environment) noexcept {
  NEXT(posix_spawnp);
  return Count(kSpawn).is ? wanted_errno
                          : next(process, file, actions, attributes, arguments, environment);
}
EXPORTED int pipe2(int* ends, int flags) noexcept {
  NEXT(pipe2);
  return Count(kSpawn).is ? -1 : next(ends, flags);
}

EXPORTED pid_t getpid() noexcept {
  return told_process != 0 ? told_process : static_cast<pid_t>(::syscall(SYS_getpid));
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

// From now on the allocations from `first` to `last` fail (0: to the end); returns how many there
// were since the last call. Counted from 1; `first` 0: none fails.
EXPORTED long fault_refuse_memory(long first, long last) noexcept {
  wanted_family = -1;
  const long counted = counts[kMemory].exchange(0);
  first_hit = first;
  last_hit = last;
  wanted_errno = ENOMEM;
  how = kErrno;
  wanted_family = first > 0 ? kMemory : -1;
  return counted;
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
  if (got == 0 && clock_kind != 0 && clock == CLOCK_REALTIME) {
    *out = {ChangedTime(), 0};
  }
  return got;
}
EXPORTED int gettimeofday(timeval* out, void* zone) noexcept {
  NEXT(gettimeofday);
  const int got = next(out, zone);
  if (got == 0 && clock_kind != 0) {
    *out = {ChangedTime(), 0};
  }
  return got;
}
EXPORTED time_t time(time_t* out) noexcept {
  NEXT(time);
  const time_t now = clock_kind != 0 ? ChangedTime() : next(nullptr);
  if (out != nullptr) {
    *out = now;
  }
  return now;
}
