#include "src/base/interrupt.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

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

extern "C" void RemoveFilesAndDie(int signal_number) {
  for (FileSlot& slot : g_files) {
    if (slot.state.load(std::memory_order_acquire) == kArmed) {
      ::unlink(slot.path.data());
    }
  }
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
  // The first process of a container is not ended by its own signals: then as a shell tells of
  // them.
  ::_exit(kShellsSignalOffset + signal_number);
}

}  // namespace

void InstallInterruptCleanup() {
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
