// Time intervals against each other: what a communication hides behind computing and what not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

using Intervals = std::vector<profile::Interval>;  // by rising start

// Time of `within` that `events` fill, walking both once. Events that overlap each other count
// twice.
profile::Nanoseconds OverlapTime(std::span<const profile::Interval> within,
                                 std::span<const profile::Interval> events);

// The parts of `events` that lie in `within`: of each event one part per interval that ends inside
// of it, and one for the interval it ends in.
Intervals Clip(std::span<const profile::Interval> events,
               std::span<const profile::Interval> within);

// Lengths of what computing covers, and of what only communication covers.
struct Coverage {
  int64_t computing = 0;
  int64_t communication_only = 0;
};
struct Mark {
  int64_t begin = 0;
  int64_t end = 0;
  bool is_computing = false;
};
Coverage Cover(const std::vector<Mark>& marks);

}  // namespace msprobe::analysis::perf
