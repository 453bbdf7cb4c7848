#include "src/base/mapped_files.h"

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <string>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace msprobe::base {
namespace {

// Fixed memory only: the handler may not allocate or lock. More files than that are not guarded.
constexpr size_t kMostFiles = 16384;

struct MappingSlot {
  std::atomic<uintptr_t> begin{0};  // 0: free
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> shrank{false};
};

std::array<MappingSlot, kMostFiles> g_mappings;
std::atomic<size_t> g_used{0};  // slots behind these were never taken
std::atomic<bool> g_guarded{false};
std::atomic<uintptr_t> g_page{4096};

// What the handler does not touch.
std::mutex g_mutex;
std::array<std::string*, kMostFiles> g_paths{};
std::array<bool, kMostFiles> g_told{};
std::string g_untold;  // a file that shrank and is mapped no more

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
  delete g_paths[index];
  g_paths[index] = nullptr;
}

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
