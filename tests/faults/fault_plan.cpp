#include "tests/faults/fault_plan.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern "C" char* program_invocation_short_name;

namespace faults {
namespace {

constexpr const char* kNames[kFamilies] = {
    "open", "read",  "write", "map",  "rename", "sync",   "folder", "list",  "remove",
    "stat", "close", "size",  "lock", "thread", "memory", "spawn",  "print", "socket"};

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

}  // namespace

[[noreturn]] void Die() {
  ::syscall(SYS_kill, ::syscall(SYS_getpid), SIGKILL);
  for (;;) {
    ::syscall(SYS_pause);
  }
}

Hit Count(Family family, bool has_bytes) {
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
int WantedErrno() { return wanted_errno; }

bool HasOwnClock() { return clock_kind != 0; }

long ChangedTime() {
  constexpr long kFrozen = 1700000000;
  return clock_kind == 1 ? kFrozen : kFrozen - 60 * looks_at_clock.fetch_add(1);
}

int ToldProcess() { return told_process; }

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

}  // namespace faults
