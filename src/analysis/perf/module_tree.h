// Modules, optimizer steps and python functions nested by time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/analysis/perf/operator_tree.h"
#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

// Intervals nested as operators are (see OperatorTree).
class NestedIntervals {
 public:
  // What lies deeper is left out: python itself stops at a thousand calls, and paths and call
  // stacks of broken traces must not grow without bounds.
  static constexpr uint32_t kMaxDepth = 4096;

  struct Interval {
    profile::Nanoseconds start = 0;
    profile::Nanoseconds end = 0;
  };
  struct Node {
    uint32_t interval = 0;  // place in the constructor's list
    uint32_t parent = kNoNode;
    uint32_t depth = 1;        // roots: 1
    uint32_t first_child = 0;  // into the list of children
    uint32_t child_count = 0;
    uint32_t first_marker = 0;  // into `markers`: those that lie inside and any deeper, without
    uint32_t last_marker = 0;   // those that lie in no node at all
    profile::Nanoseconds start = 0;
    profile::Nanoseconds end = 0;
  };

  NestedIntervals() = default;
  // `markers` (rising) are points in time; one that falls on the start of an interval lies inside.
  NestedIntervals(std::span<const Interval> intervals,
                  std::span<const profile::Nanoseconds> markers);

  // By start, parents before children.
  std::span<const Node> nodes() const { return nodes_; }
  const Node& operator[](uint32_t node) const { return nodes_[node]; }
  std::span<const uint32_t> roots() const { return roots_; }
  std::span<const uint32_t> children(uint32_t node) const {
    return std::span(children_).subspan(nodes_[node].first_child, nodes_[node].child_count);
  }
  // Markers that lie in a node, rising, and the innermost node of each.
  struct Placed {
    uint32_t marker = 0;
    uint32_t node = 0;
  };
  std::span<const Placed> placed() const { return placed_; }
  // Those of a node and everything in it.
  std::span<const Placed> placed(const Node& node) const {
    return std::span(placed_).subspan(node.first_marker, node.last_marker - node.first_marker);
  }
  // The innermost node around a time, neither end included; kNoNode when there is none.
  uint32_t Find(profile::Nanoseconds time) const;
  bool cut() const { return cut_; }  // something lay too deep

 private:
  std::vector<Node> nodes_;
  std::vector<uint32_t> roots_;
  std::vector<uint32_t> children_;
  std::vector<Placed> placed_;
  bool cut_ = false;
};

}  // namespace msprobe::analysis::perf
