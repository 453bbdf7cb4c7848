// Events of the host, which traces of GPUs and NPUs write alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/profile/common/trace_events.h"
#include "src/profile/common/values.h"
#include "src/profile/profile.h"

namespace msprobe::profile {

// The two ends of flows, joined by their number. The last start and the last end of a number count;
// flows come out in order of first appearance.
class FlowTable {
 public:
  // An event of phase 's' or 'f'; others are not ends of a flow.
  void Add(const TraceEvent& event, Texts& texts);
  // Flows with both ends.
  std::vector<Flow> Complete() const;

 private:
  struct Ends {
    Flow flow;
    bool has_start = false;
    bool has_end = false;
  };

  Texts names_;  // of flows whose number is none
  std::unordered_map<int64_t, uint32_t> numbered_;
  std::unordered_map<TextId, uint32_t> named_;
  std::vector<Ends> flows_;
};

// The marks that a profiler sets around every training step.

// "ProfilerStep#5", in any case, alone or inside a longer name.
bool IsStepMarker(std::string_view operator_name);

// Kernels by process, thread and start. A later one replaces an earlier one of
// the same key, and takes its place in the order; one that was not the same kernel listed twice is
// kept aside.

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

// Events that cannot be placed (no time, one before 1970 that the machine cannot have meant, a
// negative length) are left out; false for those. `earliest`: of clocks that count from elsewhere.
bool HasUsableTime(const TraceEvent& event, Nanoseconds earliest = 0);

// An operator; a step marker ("ProfilerStep#5") is also a step.
void AddOperator(const TraceEvent& event, const Needs& needs, Profile& profile);
void AddPythonCall(const TraceEvent& event, Profile& profile);

// Warns of each part that `needs` ask for and an NPU's profile lacks; `file` is named.
void WarnOfMissing(const std::filesystem::path& file, const Needs& needs, Profile& profile);

// For JSON that holds nothing of a profile; says what it is instead.
Status NoProfileError(const std::filesystem::path& file, const TraceOutcome& outcome);

// The end of a trace: that it breaks off, or holds events that were left out, is an error when
// `needs` are strict, else a warning.
Status Conclude(const std::filesystem::path& file, const TraceOutcome& outcome,
                uint64_t without_time, const Needs& needs, Profile& profile);

}  // namespace msprobe::profile
