#include "src/profile/pytorch_trace/memory.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "src/profile/common/time_sum.h"

namespace msprobe::profile {
namespace {

constexpr double kBytesPerKb = 1024;

}  // namespace

void GpuMemory::Add(Nanoseconds at, TextId at_text, TextId address, double bytes,
                    double total_reserved) {
  events_.push_back({at, at_text, address, bytes});
  max_reserved_bytes_ = std::max(max_reserved_bytes_, total_reserved);
}

std::vector<Allocation> GpuMemory::Allocations(TextId never_released) {
  std::stable_sort(events_.begin(), events_.end(),
                   [](const Event& a, const Event& b) { return a.at < b.at; });
  std::vector<Allocation> ended;
  // Those that live, in order of allocation; a slot is emptied when its allocation ends.
  std::vector<Allocation> living;
  std::vector<bool> lives;
  std::unordered_map<TextId, size_t> by_address;
  for (const Event& event : events_) {
    const double kb = event.bytes / kBytesPerKb;
    const auto found = by_address.find(event.address);
    if (event.bytes > 0) {
      if (found != by_address.end()) {
        ended.push_back(living[found->second]);
        lives[found->second] = false;
      }
      by_address[event.address] = living.size();
      Allocation allocation;
      allocation.at = event.at;
      allocation.allocated = event.at_text;
      allocation.released = never_released;
      allocation.size_kb = kb;
      living.push_back(allocation);
      lives.push_back(true);
    } else if (event.bytes < 0 && found != by_address.end()) {
      Allocation& allocation = living[found->second];
      // A release of another size belongs to nothing that is known: neither survives.
      if (std::fabs(kb) == allocation.size_kb) {
        allocation.released = event.at_text;
        if (event.at != 0 && allocation.at != 0) {
          allocation.duration_us =
              static_cast<double>(SumOfTimes(event.at, -allocation.at)) / kNanosecondsPerUs;
        }
        ended.push_back(allocation);
      }
      lives[found->second] = false;
      by_address.erase(found);
    }
  }
  for (size_t index = 0; index < living.size(); ++index) {
    if (lives[index]) {
      ended.push_back(living[index]);
    }
  }
  return ended;
}

}  // namespace msprobe::profile
