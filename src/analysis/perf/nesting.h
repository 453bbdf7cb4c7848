// Calls nested by time: what ran inside of what. There are two rules, since two results depend on
// them.
//
// NestedIntervals is the rule of the Python tool, whose sheets of operators, memory and modules are
// matched row by row: threads are ignored, an interval lies in the latest one that began before it
// (or with it, earlier in the list) and has not ended; ends are inclusive, so that what begins
// where another one ends lies inside of that one.
//
// HostTree is the rule of the verdict and the findings: every thread is apart, ends are exclusive,
// and of calls that begin together the longer one is outside.
//
// Both are built in one walk over rising starts. The calls that are still open form a chain from
// the last one that began over its parents; each is closed once, so that the walk is linear.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

inline constexpr uint32_t kNoNode = UINT32_MAX;

// The numbers [0, count) by rising `key(number)`; equal keys in the order of the numbers.
template <typename Key>
std::vector<uint32_t> OrderBy(size_t count, const Key& key) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  const auto before = [&key](uint32_t a, uint32_t b) { return key(a) < key(b); };
  if (!std::is_sorted(order.begin(), order.end(), before)) {
    std::stable_sort(order.begin(), order.end(), before);
  }
  return order;
}

// One list of numbers for each of `keys` owners, all in one vector.
class Lists {
 public:
  Lists() = default;
  // value(i), for i in [0, count), in the list of owner(i) (below `keys`, or kNoNode), in order.
  template <typename Owner, typename Value>
  Lists(size_t keys, size_t count, const Owner& owner, const Value& value)
      : begins_(keys + 2), values_(count) {
    const auto slot = [&](size_t i) { return std::min<size_t>(owner(i), keys); };
    // Counted two places further on, and filled one place further on, which leaves the beginnings.
    for (size_t i = 0; i < count; ++i) {
      if (slot(i) < keys) {
        ++begins_[slot(i) + 2];
      }
    }
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    for (size_t i = 0; i < count; ++i) {
      values_[begins_[slot(i) + 1]++] = value(i);
    }
  }

  // kNoNode: the list of what has no owner.
  std::span<const uint32_t> operator[](uint32_t key) const {
    const size_t slot = std::min<size_t>(key, begins_.size() - 2);
    return std::span(values_).subspan(begins_[slot], begins_[slot + 1] - begins_[slot]);
  }

 private:
  std::vector<uint32_t> begins_ = std::vector<uint32_t>(2);
  std::vector<uint32_t> values_;
};

class NestedIntervals {
 public:
  // What modules and python functions are cut at: python itself stops at a thousand calls, and
  // paths and call stacks of broken traces must not grow without bounds.
  static constexpr uint32_t kMaxDepth = 4096;

  struct Interval {
    profile::Nanoseconds start = 0;
    profile::Nanoseconds end = 0;
  };
  struct Node {
    uint32_t interval = 0;  // place in the constructor's list
    uint32_t parent = kNoNode;
    uint32_t first_marker = 0;  // into placed(): of the node and everything below it
    uint32_t last_marker = 0;
    profile::Nanoseconds start = 0;
    profile::Nanoseconds end = 0;
  };

  NestedIntervals() = default;
  // `markers` (rising) are points in time; one that falls on the start of an interval lies inside.
  // Intervals deeper than `max_depth` are left out.
  NestedIntervals(std::span<const Interval> intervals,
                  std::span<const profile::Nanoseconds> markers, uint32_t max_depth = kMaxDepth);

  // By start, parents before children.
  std::span<const Node> nodes() const { return nodes_; }
  const Node& operator[](uint32_t node) const { return nodes_[node]; }
  std::span<const uint32_t> roots() const { return children_[kNoNode]; }
  std::span<const uint32_t> children(uint32_t node) const { return children_[node]; }
  // Markers that lie in a node, rising, and the innermost node of each.
  struct Placed {
    uint32_t marker = 0;
    uint32_t node = 0;
  };
  std::span<const Placed> placed() const { return placed_; }
  // The markers of a node and of everything in it.
  std::span<const Placed> placed(const Node& node) const {
    return std::span(placed_).subspan(node.first_marker, node.last_marker - node.first_marker);
  }
  // The innermost node around a time, neither end included; kNoNode when there is none. A node that
  // outlasts the one it lies in is found only while that one lasts.
  uint32_t Find(profile::Nanoseconds time) const;
  bool cut() const { return cut_; }  // something lay too deep

 private:
  std::vector<Node> nodes_;
  Lists children_;
  std::vector<Placed> placed_;
  bool cut_ = false;
};

// The ends of intervals in the order of their starts, with the largest of each block of 64, of each
// block of 64 blocks, and so on: finds the last interval that goes on beyond a time in some hundred
// steps, however many have ended.
class LatestEnds {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // `end_of(place)`: the end of an interval, here and below the same.
  template <typename EndOf>
  void Build(uint32_t count, const EndOf& end_of);
  // The last place of [first, last) whose end is beyond `at`.
  template <typename EndOf>
  uint32_t Find(uint32_t first, uint32_t last, profile::Nanoseconds at, const EndOf& end_of) const;

 private:
  static constexpr uint32_t kBlock = 64;

  std::vector<std::vector<profile::Nanoseconds>> levels_;
};

// Operators, marked ranges, python functions and runtime calls, thread by thread.
class HostTree {
 public:
  // If intervals are equal, a kind encloses the kinds listed after it; modules and Python functions
  // enclose each other in the order of the file.
  enum class Kind : uint8_t { kStep, kAnnotation, kModule, kPython, kOperator, kRuntime };
  static constexpr uint32_t kNone = kNoNode;

  struct Node {
    profile::Nanoseconds start = 0;
    profile::Nanoseconds end = 0;
    profile::Nanoseconds self = 0;  // without what lies inside; never negative
    profile::TextId name = profile::kNoText;
    uint32_t parent = kNone;
    uint32_t operation = kNone;  // into Profile::operators, of those
    uint32_t caller = kNone;     // the innermost operator that it is or lies in
    Kind kind = Kind::kOperator;
  };

  explicit HostTree(const profile::Profile& side);

  // Thread by thread, rising by start; callers before what they call.
  std::span<const Node> nodes() const { return nodes_; }
  const Node& operator[](uint32_t node) const { return nodes_[node]; }

  // The innermost node around a time on a thread; of an unknown thread (kNoText) on any, where one
  // that begins just then comes first. kNone where nothing runs.
  uint32_t Find(profile::TextId process, profile::TextId thread, profile::Nanoseconds at) const;

  // Calls visit(node or kNone, ns) for the stretches of [from, to) on a thread, each with the
  // innermost node that runs in it.
  void VisitStretches(profile::TextId process, profile::TextId thread, profile::Nanoseconds from,
                      profile::Nanoseconds to,
                      const std::function<void(uint32_t, profile::Nanoseconds)>& visit) const;

  // The innermost operator that a node is or lies in; kNone for kNone, too.
  uint32_t OperatorOf(uint32_t node) const { return node == kNone ? kNone : nodes_[node].caller; }
  // The first of `node` and its callers, the innermost first, for which `found(node)` is true;
  // kNone: there is none among the first kDeepest.
  template <typename Found>
  uint32_t FirstCaller(uint32_t node, const Found& found) const {
    for (int step = 0; node != kNone && step < kDeepest; node = nodes_[node].parent, ++step) {
      if (found(node)) {
        return node;
      }
    }
    return kNone;
  }
  uint32_t Nearest(uint32_t node, Kind kind) const {
    return FirstCaller(node, [&](uint32_t caller) { return nodes_[caller].kind == kind; });
  }

 private:
  static constexpr int kDeepest = 512;

  struct Thread {
    profile::TextId process = profile::kNoText;
    profile::TextId thread = profile::kNoText;
    uint32_t begin = 0;
    uint32_t end = 0;
    // Where its python calls and its runtime calls begin, before they are sorted in.
    uint32_t python = 0;
    uint32_t runtime = 0;
  };

  void Gather(const profile::Profile& side);
  void Nest(const Thread& thread);
  const Thread* ThreadOf(profile::TextId process, profile::TextId thread) const;
  uint32_t FindIn(const Thread& thread, profile::Nanoseconds at) const;
  uint32_t FirstAfter(const Thread& thread, profile::Nanoseconds at) const;

  // All threads in one order, made when a time on any thread is asked for. Of nodes that begin
  // together those of the first thread come last.
  struct AllThreads {
    std::once_flag made;
    std::vector<uint32_t> nodes;
    LatestEnds ends;
  };

  void MakeAllThreads() const;
  uint32_t FindInAll(profile::Nanoseconds at) const;

  std::vector<Node> nodes_;
  std::vector<Thread> threads_;
  LatestEnds ends_;  // of nodes_
  std::unique_ptr<AllThreads> all_threads_ = std::make_unique<AllThreads>();
  std::unordered_map<uint64_t, uint32_t> numbers_;  // into threads_, by process and thread
};

// Marked ranges that older profilers and other devices write as operators.
bool IsAnnotationName(std::string_view name);

}  // namespace msprobe::analysis::perf
