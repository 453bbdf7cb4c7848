#include "src/analysis/perf/intervals.h"

#include <algorithm>

#include "src/profile/common/time_sum.h"

namespace msprobe::analysis::perf {

using profile::Interval;
using profile::Nanoseconds;

Nanoseconds OverlapTime(std::span<const Interval> within, std::span<const Interval> events) {
  Nanoseconds sum = 0;
  size_t next = 0;
  for (const Interval& outer : within) {
    while (next < events.size()) {
      const Interval& event = events[next];
      if (event.end <= outer.start) {
        ++next;
        continue;
      }
      if (event.start >= outer.end) {
        break;
      }
      if (event.end >= outer.end) {
        sum = profile::SumOfTimes(sum, outer.end - std::max(event.start, outer.start));
        break;
      }
      sum = profile::SumOfTimes(sum, event.end - std::max(event.start, outer.start));
      ++next;
    }
  }
  return sum;
}

Intervals Clip(std::span<const Interval> events, std::span<const Interval> within) {
  Intervals parts;
  size_t next = 0;
  for (const Interval& event : events) {
    while (next < within.size()) {
      const Interval& outer = within[next];
      if (outer.end < event.start) {
        ++next;
        continue;
      }
      if (outer.start > event.end) {
        break;
      }
      const Nanoseconds begin = std::max(event.start, outer.start);
      if (outer.end < event.end) {
        parts.push_back({begin, outer.end, 0});
        ++next;
        continue;
      }
      parts.push_back({begin, std::min(event.end, outer.end), 0});
      break;
    }
  }
  return parts;
}

Coverage Cover(const std::vector<Mark>& marks) {
  struct Edge {
    int64_t at;
    int32_t computing;
    int32_t communication;
  };
  std::vector<Edge> edges;
  for (const Mark& mark : marks) {
    if (mark.begin < mark.end) {
      edges.push_back({mark.begin, mark.is_computing ? 1 : 0, mark.is_computing ? 0 : 1});
      edges.push_back({mark.end, mark.is_computing ? -1 : 0, mark.is_computing ? 0 : -1});
    }
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  Coverage coverage;
  int64_t computing = 0;
  int64_t communication = 0;
  for (size_t index = 0; index < edges.size(); ++index) {
    computing += edges[index].computing;
    communication += edges[index].communication;
    const int64_t length = index + 1 < edges.size() ? edges[index + 1].at - edges[index].at : 0;
    coverage.computing += computing > 0 ? length : 0;
    coverage.communication_only += computing == 0 && communication > 0 ? length : 0;
  }
  return coverage;
}

}  // namespace msprobe::analysis::perf
