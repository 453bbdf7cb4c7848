#include <atomic>

#include "src/kernels/kernel_table.h"
#include "src/kernels/stats.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace msprobe::kernels::internal {
namespace {

struct Available {
  const KernelTable* tables[4] = {};
  size_t count = 0;
};

#if defined(__x86_64__)
// The builtin has no name for F16C in every supported compiler.
bool HasF16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1U << 29U)) != 0;
}
#endif

Available Detect() {
  Available found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool sse4 = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
                    __builtin_cpu_supports("sse4.2");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && HasF16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512) {
    found.tables[found.count++] = &kAvx512Table;
  }
  if (avx2) {
    found.tables[found.count++] = &kAvx2Table;
  }
  if (sse4) {
    found.tables[found.count++] = &kSse4Table;
  }
#elif defined(__aarch64__)
  found.tables[found.count++] = &kNeonTable;  // part of the architecture's baseline
#endif
  found.tables[found.count++] = &PlainTable();
  return found;
}

const Available& Detected() {
  static const Available available = Detect();
  return available;
}

std::atomic<const KernelTable*> active_table{nullptr};

}  // namespace

std::span<const KernelTable* const> AvailableTables() {
  return {Detected().tables, Detected().count};
}

const KernelTable& ActiveTable() {
  const KernelTable* table = active_table.load(std::memory_order_acquire);
  if (table == nullptr) {
    table = Detected().tables[0];
    active_table.store(table, std::memory_order_release);
  }
  return *table;
}

void ForceTableForTesting(const KernelTable* table) {
  active_table.store(table, std::memory_order_release);
}

}  // namespace msprobe::kernels::internal

namespace msprobe::kernels {

std::string_view InstructionSet() { return internal::ActiveTable().name; }

}  // namespace msprobe::kernels
