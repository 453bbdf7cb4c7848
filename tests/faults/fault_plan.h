#pragma once

// What the injected calls share: the plan, and the counters that say which call is hit.
#include <cstddef>

#include <dlfcn.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace faults {

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
  kSocket,
  kFamilies
};

enum How : int { kErrno, kShort, kStop, kKill, kTorn };

struct Hit {
  bool is = false;
  int how = kErrno;
};

// Counts one call; whether it is one that is hit, errno set then. Calls that cannot be cut in two
// are never hit by half.
Hit Count(Family family, bool has_bytes = false);

// Whether an allocation that returns to `place` fails.
bool IsRefused(const void* place);

// SIGKILL.
[[noreturn]] void Die();

// The errno of calls that fail.
int WantedErrno();

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// The real function of a name, looked up once.
#define NEXT(name) static auto* const next = ::faults::Next<decltype(&::name)>(#name)

inline size_t Half(size_t bytes) { return bytes <= 1 ? bytes : bytes / 2; }

// What the program sees of the clock and of its own process; 0: the truth.
bool HasOwnClock();
long ChangedTime();
int ToldProcess();

}  // namespace faults
