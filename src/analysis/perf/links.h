// Which kernels a point in time on the host launched. Profilers record a launch as an arrow from a
// time and thread of the host to the start of a kernel, not from an operator: which operator it
// belongs to is decided later, by the nesting of the operators at that time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

class KernelLinks {
 public:
  // Flows that end where no kernel starts count for nothing. Where kernels share process, thread
  // and start, the last one counts.
  explicit KernelLinks(const profile::Profile& side);

  static constexpr uint32_t kNone = UINT32_MAX;

  // Host times from which at least one kernel was launched, rising.
  std::span<const profile::Nanoseconds> times() const { return times_; }
  // Indices into Profile::kernels of those launched at times()[index], in the flows' order.
  std::span<const uint32_t> kernels(size_t index) const {
    return std::span(kernels_).subspan(begins_[index], begins_[index + 1] - begins_[index]);
  }
  // The place of a host time in times(), or kNone.
  uint32_t Find(profile::Nanoseconds host_time) const;

 private:
  std::vector<profile::Nanoseconds> times_;
  std::vector<uint32_t> begins_;
  std::vector<uint32_t> kernels_;
};

}  // namespace msprobe::analysis::perf
