// Inside of the room: the memory events of a GPU trace, joined to allocations by address.
#pragma once

#include <string_view>
#include <vector>

#include "src/profile/profile.h"

namespace msprobe::profile {

class GpuMemory {
 public:
  // `bytes` is negative for a release. Traces that record no address pass an empty one.
  void Add(Nanoseconds at, TextId at_text, TextId address, double bytes, double total_reserved);

  // In the order in which they end; what was never released comes last. `never_released` is what
  // stands in place of the missing time.
  std::vector<Allocation> Allocations(TextId never_released);
  double max_reserved_bytes() const { return max_reserved_bytes_; }
  bool empty() const { return events_.empty(); }

 private:
  struct Event {
    Nanoseconds at;
    TextId at_text;
    TextId address;
    double bytes;
  };
  std::vector<Event> events_;
  double max_reserved_bytes_ = 0;
};

}  // namespace msprobe::profile
