#include "src/base/interrupt.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace msprobe::base {
namespace {

// Fixed memory only: a signal handler may not allocate or lock.
constexpr size_t kMaxPathBytes = 4096;
constexpr size_t kMaxFiles = 64;

constexpr int kShellsSignalOffset = 128;

enum SlotState : int { kFree, kFilling, kArmed };

struct FileSlot {
  std::atomic<int> state{kFree};
  std::array<char, kMaxPathBytes> path{};
};

std::array<FileSlot, kMaxFiles> g_files;

// Empties and removes a folder, by system calls alone: readdir() allocates.
void RemoveFolder(int parent, const char* name, int depth) {
  constexpr int kDeepest = 16;  // what this program makes is flatter
  const int folder =
      ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (folder < 0) {
    return;
  }
  alignas(dirent64) std::array<char, 4096> block;
  bool removed = depth < kDeepest;
  while (removed) {  // from the start again until nothing goes any more
    removed = false;
    ::lseek(folder, 0, SEEK_SET);
    const long bytes = ::syscall(SYS_getdents64, folder, block.data(), block.size());
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(block.data() + at);
      at += entry->d_reclen;
      const std::string_view entry_name = entry->d_name;
      if (entry_name == "." || entry_name == "..") {
        continue;
      }
      if (::unlinkat(folder, entry->d_name, 0) == 0) {
        removed = true;
      } else if (errno == EISDIR || errno == EPERM) {
        RemoveFolder(folder, entry->d_name, depth + 1);
        removed |= ::faccessat(folder, entry->d_name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
      }
    }
  }
  ::close(folder);
  ::unlinkat(parent, name, AT_REMOVEDIR);
}

void RemoveFiles() {
  for (FileSlot& slot : g_files) {
    if (slot.state.load(std::memory_order_acquire) == kArmed && ::unlink(slot.path.data()) != 0 &&
        (errno == EISDIR || errno == EPERM)) {
      RemoveFolder(AT_FDCWD, slot.path.data(), 0);
    }
  }
}

extern "C" void RemoveFilesAndDie(int signal_number) {
  RemoveFiles();
  std::signal(signal_number, SIG_DFL);
  // Blocked, it would wait: ThreadSanitizer's runtime blocks all signals while a handler runs.
  sigset_t itself;
  sigemptyset(&itself);
  sigaddset(&itself, signal_number);
  ::pthread_sigmask(SIG_UNBLOCK, &itself, nullptr);
  std::raise(signal_number);
  // The first process of a container is not ended by its own signals: then as a shell tells of
  // them.
  ::_exit(kShellsSignalOffset + signal_number);
}

// May neither allocate nor wait for a lock that a broken thread holds.
[[noreturn]] void RemoveFilesAndGiveUp() {
  RemoveFiles();
  constexpr std::string_view kMessage =
      "error: cannot go on, most likely for lack of memory\n"
      "  hint: use fewer --threads; check ulimit -v and the memory limit of the container\n";
  [[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  constexpr int kFailed = 3;
  ::_exit(kFailed);
}

}  // namespace

void InstallTerminateCleanup() { std::set_terminate(&RemoveFilesAndGiveUp); }

void InstallInterruptCleanup() {
  InstallTerminateCleanup();
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    struct sigaction previous {};
    action.sa_handler = RemoveFilesAndDie;
    action.sa_flags = SA_NODEFER | SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    // Respect a parent that told us to ignore the signal (nohup).
    if (::sigaction(signal_number, nullptr, &previous) == 0 && previous.sa_handler != SIG_IGN) {
      ::sigaction(signal_number, &action, nullptr);
    }
  }
}

int RemoveOnInterrupt(const std::string& path) {
  if (path.size() >= kMaxPathBytes) {
    return -1;
  }
  for (size_t i = 0; i < g_files.size(); ++i) {
    int expected = kFree;
    if (g_files[i].state.compare_exchange_strong(expected, kFilling)) {
      std::memcpy(g_files[i].path.data(), path.c_str(), path.size() + 1);
      g_files[i].state.store(kArmed, std::memory_order_release);
      return static_cast<int>(i);
    }
  }
  return -1;
}

void ForgetOnInterrupt(int slot) {
  if (slot >= 0) {
    g_files[static_cast<size_t>(slot)].state.store(kFree, std::memory_order_release);
  }
}

}  // namespace msprobe::base
