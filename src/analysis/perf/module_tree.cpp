#include "src/analysis/perf/module_tree.h"

#include <algorithm>
#include <numeric>

namespace msprobe::analysis::perf {

using profile::Nanoseconds;

NestedIntervals::NestedIntervals(std::span<const Interval> intervals,
                                 std::span<const Nanoseconds> markers) {
  std::vector<uint32_t> order(intervals.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [intervals](uint32_t a, uint32_t b) {
    return intervals[a].start < intervals[b].start;
  });
  nodes_.reserve(intervals.size());
  uint32_t last = kNoNode;
  const auto leave = [&](Nanoseconds now) {
    while (last != kNoNode && now > nodes_[last].end) {
      nodes_[last].last_marker = static_cast<uint32_t>(placed_.size());
      last = nodes_[last].parent;
    }
  };
  size_t marker = 0;
  const auto place_markers = [&](Nanoseconds before, bool all) {
    for (; marker < markers.size() && (all || markers[marker] < before); ++marker) {
      leave(markers[marker]);
      if (last != kNoNode) {
        placed_.push_back({static_cast<uint32_t>(marker), last});
      }
    }
  };
  for (const uint32_t index : order) {
    const Interval& interval = intervals[index];
    place_markers(interval.start, false);
    leave(interval.start);
    const uint32_t depth = last == kNoNode ? 1 : nodes_[last].depth + 1;
    if (depth > kMaxDepth) {
      cut_ = true;
      continue;
    }
    Node node;
    node.interval = index;
    node.parent = last;
    node.depth = depth;
    node.start = interval.start;
    node.end = interval.end;
    node.first_marker = static_cast<uint32_t>(placed_.size());
    if (last == kNoNode) {
      roots_.push_back(static_cast<uint32_t>(nodes_.size()));
    } else {
      ++nodes_[last].child_count;
    }
    last = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back(node);
  }
  place_markers(0, true);
  for (; last != kNoNode; last = nodes_[last].parent) {
    nodes_[last].last_marker = static_cast<uint32_t>(placed_.size());
  }

  uint32_t child = 0;
  for (Node& node : nodes_) {
    node.first_child = child;
    child += node.child_count;
    node.child_count = 0;  // counted again while the list fills
  }
  children_.resize(child);
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].parent != kNoNode) {
      Node& parent = nodes_[nodes_[i].parent];
      children_[parent.first_child + parent.child_count++] = i;
    }
  }
}

uint32_t NestedIntervals::Find(Nanoseconds time) const {
  uint32_t found = kNoNode;
  std::span<const uint32_t> level = roots_;
  while (true) {
    const auto after =
        std::upper_bound(level.begin(), level.end(), time,
                         [this](Nanoseconds t, uint32_t node) { return t < nodes_[node].start; });
    if (after == level.begin()) {
      return found;
    }
    const uint32_t candidate = *(after - 1);
    if (nodes_[candidate].start >= time || nodes_[candidate].end <= time) {
      return found;
    }
    found = candidate;
    level = children(candidate);
  }
}

}  // namespace msprobe::analysis::perf
