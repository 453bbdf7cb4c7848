// Inside of the room: kernels by process, thread and start. A later one replaces an earlier one of
// the same key, and takes its place in the order; one that was not the same kernel told twice is
// kept aside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "src/profile/profile.h"

namespace msprobe::profile {

class KernelTable {
 public:
  void Add(const Kernel& kernel);
  std::vector<Kernel> Take() { return std::move(kernels_); }
  std::vector<Kernel> TakeReplaced() { return std::move(replaced_); }

 private:
  struct Key {
    Nanoseconds start;
    TextId process;
    TextId thread;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      // Threads of one process differ in few bits, starts in many.
      const auto start = static_cast<uint64_t>(key.start);
      const uint64_t place = (uint64_t{key.process} << 32U) | key.thread;
      return static_cast<size_t>((start ^ (place * 0x9E3779B97F4A7C15U)) * 0xD6E8FEB86659FD93U);
    }
  };

  static bool IsRepeated(const Kernel& a, const Kernel& b) {
    return a.name == b.name && a.end == b.end && a.correlation == b.correlation;
  }

  std::vector<Kernel> kernels_;
  std::vector<Kernel> replaced_;
  std::unordered_map<Key, uint32_t, Hash> index_;
};

inline void KernelTable::Add(const Kernel& kernel) {
  const auto [found, is_new] = index_.try_emplace({kernel.start, kernel.process, kernel.thread},
                                                  static_cast<uint32_t>(kernels_.size()));
  if (is_new) {
    kernels_.push_back(kernel);
    return;
  }
  Kernel& known = kernels_[found->second];
  if (!IsRepeated(known, kernel)) {
    replaced_.push_back(known);
  }
  known = kernel;
}

}  // namespace msprobe::profile
