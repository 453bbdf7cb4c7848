// Linked into what is released, so that a program built with a new glibc runs with an old one (cmake/ReleaseLinking.cmake tells
// which). A linker binds a name to its newest version in the library at hand; of the names below older versions exist, or their
// work can be done by older functions. libstdc++ and libgcc, which are linked in, are served as well: all definitions here are
// hidden, and seen by the file that they are linked into only.
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// ---- the same function under its first version ----
//
// Since 2.34 the C library itself holds the threads and the loader's functions, and calls them new; since 2.27 and 2.29 some functions of
// libm leave errno alone.

#if defined(__x86_64__)
#define JUMP "jmp"
#define AS_PROCEDURE "@PLT"
#define FIRST_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define JUMP "b"
#define AS_PROCEDURE ""
#define FIRST_VERSION "GLIBC_2.17"
#else
#error "the first version of glibc for this architecture is not known here"
#endif

asm(".macro use_older name, version=" FIRST_VERSION
    "\n"
    "  .symver older_\\name, \\name@\\version\n"
    "  .pushsection .text.older_\\name, \"ax\", %progbits\n"
    "  .globl \\name\n"
    "  .hidden \\name\n"
    "  .type \\name, %function\n"
    "\\name:\n"
    "  .cfi_startproc\n"
    "  " JUMP " older_\\name" AS_PROCEDURE
    "\n"
    "  .cfi_endproc\n"
    "  .size \\name, . - \\name\n"
    "  .popsection\n"
    ".endm\n"
    "use_older dlclose\n"
    "use_older dlerror\n"
    "use_older dlopen\n"
    "use_older dlsym\n"
#if defined(__x86_64__)
    "use_older dlinfo, GLIBC_2.3.3\n"
#else
    "use_older dlinfo\n"
#endif
    "use_older pthread_create\n"
    "use_older pthread_detach\n"
    "use_older pthread_getspecific\n"
    "use_older pthread_join\n"
    "use_older pthread_key_create\n"
    "use_older pthread_mutex_trylock\n"
    "use_older pthread_mutexattr_destroy\n"
    "use_older pthread_mutexattr_init\n"
    "use_older pthread_mutexattr_settype\n"
    "use_older pthread_once\n"
    "use_older pthread_setspecific\n"
    "use_older pthread_sigmask\n"
    "use_older __pthread_key_create\n"
    "use_older exp\n"
    "use_older exp2\n"
    "use_older expf\n"
    "use_older hypot\n"
    "use_older log\n"
    "use_older log2\n"
    "use_older pow\n");

// ---- newer functions ----

#define HIDDEN [[gnu::visibility("hidden")]]

namespace {

// The functions that this host has, found when the file is loaded.
using ClockWait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
using FindObject = int (*)(void*, dl_find_object*);
using Destructor = void (*)(void*);
ClockWait clock_wait_here = nullptr;
FindObject find_object_here = nullptr;

// MSPROBE_OLDER_GLIBC_ONLY: a test's host has all of them.
#ifndef MSPROBE_OLDER_GLIBC_ONLY
[[gnu::constructor(101)]] void FindWhatIsHere() {
  clock_wait_here = reinterpret_cast<ClockWait>(dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  find_object_here = reinterpret_cast<FindObject>(dlsym(RTLD_DEFAULT, "_dl_find_object"));
}
#endif

int64_t NanosecondsOf(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

int64_t Now(clockid_t clock) {
  timespec time = {};
  ::clock_gettime(clock, &time);
  return NanosecondsOf(time);
}

// What a thread destroys at its end, last made first.
struct ThreadObject {
  Destructor destroy = nullptr;
  void* object = nullptr;
  ThreadObject* next = nullptr;
};
pthread_key_t thread_objects;
pthread_once_t thread_objects_once = PTHREAD_ONCE_INIT;

void DestroyThreadObjects(void* first) {
  auto* next = static_cast<ThreadObject*>(first);
  while (next != nullptr) {
    ThreadObject* const current = next;
    next = current->next;
    current->destroy(current->object);
    std::free(current);
  }
}

void MakeThreadObjects() {
  ::pthread_key_create(&thread_objects, &DestroyThreadObjects);
  // The first thread ends with the process, for which keys are not asked.
  std::atexit([] {
    void* const first = ::pthread_getspecific(thread_objects);
    ::pthread_setspecific(thread_objects, nullptr);
    DestroyThreadObjects(first);
  });
}

// Random bytes of the kernel: by its call (Linux 3.17) or its file.
bool FillWithRandom(char* bytes, size_t count) {
  while (count > 0) {
    const long got = ::syscall(SYS_getrandom, bytes, count, 0);
    if (got > 0) {
      bytes += got;
      count -= static_cast<size_t>(got);
    } else if (errno != EINTR) {
      break;
    }
  }
  if (count == 0) {
    return true;
  }
  std::FILE* const file = std::fopen("/dev/urandom", "rbe");
  const bool filled = file != nullptr && std::fread(bytes, 1, count, file) == count;
  if (file != nullptr) {
    std::fclose(file);
  }
  return filled;
}

struct Search {
  uintptr_t address = 0;
  dl_find_object* found = nullptr;
};

// Whether `object` holds the address; its frames for unwinding are noted then.
int HoldsAddress(dl_phdr_info* object, size_t /*size*/, void* search_pointer) {
  auto* search = static_cast<Search*>(search_pointer);
  const ElfW(Phdr)* frames = nullptr;
  bool holds = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) {
      frames = &header;
    } else if (header.p_type == PT_LOAD && search->address - start < header.p_memsz) {
      holds = true;
      search->found->dlfo_map_start = reinterpret_cast<void*>(start);
      search->found->dlfo_map_end = reinterpret_cast<void*>(start + header.p_memsz);
    }
  }
  if (!holds || frames == nullptr) {
    return 0;
  }
  search->found->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + frames->p_vaddr);
  return 1;
}

}  // namespace

extern "C" {

// 2.32, a variable: whether counters of references may do without atomic instructions. Never: frameworks have threads.
HIDDEN char __libc_single_threaded = 0;

// 2.30. Without it the wait is by the wall clock, as libstdc++ itself did then: a clock that is set while somebody waits makes
// the wait shorter or longer.
HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (clock_wait_here != nullptr) {
    return clock_wait_here(condition, mutex, clock, until);
  }
  const int64_t moment = Now(CLOCK_REALTIME) + NanosecondsOf(*until) - Now(clock);
  const timespec by_wall_clock = {moment / 1'000'000'000, moment % 1'000'000'000};
  return ::pthread_cond_timedwait(condition, mutex, &by_wall_clock);
}

// 2.33; inline before that.
HIDDEN int stat(const char* path, struct stat* result) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, result, 0));
}
HIDDEN int lstat(const char* path, struct stat* result) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW));
}
HIDDEN int fstat(int file, struct stat* result) noexcept { return static_cast<int>(::syscall(SYS_fstat, file, result)); }
HIDDEN int fstatat(int folder, const char* path, struct stat* result, int flags) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, folder, path, result, flags));
}
HIDDEN int stat64(const char* path, struct stat64* result) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, result, 0));
}
HIDDEN int lstat64(const char* path, struct stat64* result) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW));
}
HIDDEN int fstat64(int file, struct stat64* result) noexcept {
  return static_cast<int>(::syscall(SYS_fstat, file, result));
}

// 2.35: what unwinding of exceptions asks for the frames of an address.
HIDDEN int _dl_find_object(void* address, dl_find_object* result) noexcept {
  if (find_object_here != nullptr) {
    return find_object_here(address, result);
  }
  *result = {};
  Search search = {reinterpret_cast<uintptr_t>(address), result};
  return ::dl_iterate_phdr(&HoldsAddress, &search) == 1 ? 0 : -1;
}

// 2.18: destructors of thread_local objects. The host's own is never asked: it ends the process where memory is short, which
// may be somebody's training. Here the object is then not destroyed.
HIDDEN int __cxa_thread_atexit_impl(Destructor destroy, void* object, void* /*file*/) {
  ::pthread_once(&thread_objects_once, &MakeThreadObjects);
  auto* const added = static_cast<ThreadObject*>(std::malloc(sizeof(ThreadObject)));
  if (added == nullptr) {
    return -1;
  }
  *added = {destroy, object, static_cast<ThreadObject*>(::pthread_getspecific(thread_objects))};
  return ::pthread_setspecific(thread_objects, added);
}

// 2.28: an alias of fcntl on 64 bits, and a call of the kernel.
HIDDEN int fcntl64(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  return static_cast<int>(::syscall(SYS_fcntl, file, command, argument));
}
HIDDEN int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

// 2.25 and 2.36: random numbers, of which std::random_device and Expat seed themselves.
HIDDEN int getentropy(void* bytes, size_t count) {
  return FillWithRandom(static_cast<char*>(bytes), count) ? 0 : -1;
}
HIDDEN void arc4random_buf(void* bytes, size_t count) noexcept {
  if (!FillWithRandom(static_cast<char*>(bytes), count)) {
    ::abort();  // as the function of that name does
  }
}
HIDDEN uint32_t arc4random() noexcept {
  uint32_t number = 0;
  arc4random_buf(&number, sizeof number);
  return number;
}

}  // extern "C"
