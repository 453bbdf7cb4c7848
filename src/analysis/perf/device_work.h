// What ran on the device, each piece with what started it: the basis of the answer. All streams
// count, copies and fills too, kernels of graphs belong to the launch of the graph.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/analysis/perf/pair_comparison.h"
#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

// What the host did, thread by thread: operators, marked ranges, python functions and calls of the
// runtime, nested as they called each other. Times are half open: what begins where another ends is
// not inside of it. (operator_tree.h is the Python tool's nesting, which differs in both.)

// Ends of intervals that stand in the order of their starts: finds the last one that goes on beyond
// a time in some hundred steps, however many of them have ended.
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

  // The largest end of each whole block of places, of each block of those, and so on.
  std::vector<std::vector<profile::Nanoseconds>> levels_;
};

class HostTree {
 public:
  enum class Kind : uint8_t { kOperator, kAnnotation, kStep, kModule, kPython, kRuntime };
  static constexpr uint32_t kNone = UINT32_MAX;

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
  template <typename Visit>
  void VisitStretches(profile::TextId process, profile::TextId thread, profile::Nanoseconds from,
                      profile::Nanoseconds to, const Visit& visit) const;

  // The innermost operator that a node is or lies in; kNone for kNone, too.
  uint32_t OperatorOf(uint32_t node) const { return node == kNone ? kNone : nodes_[node].caller; }
  // The nearest node of another kind among `node` and what it lies in; kNone: there is none.
  uint32_t Nearest(uint32_t node, Kind kind) const {
    for (int step = 0; node != kNone && nodes_[node].kind != kind; ++step) {
      node = step < kDeepest ? nodes_[node].parent : kNone;
    }
    return node;
  }
  static constexpr int kDeepest = 512;  // callers that are looked at

 private:
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

template <typename EndOf>
void LatestEnds::Build(uint32_t count, const EndOf& end_of) {
  levels_.clear();
  for (uint32_t blocks = count / kBlock; blocks > 0; blocks /= kBlock) {
    std::vector<profile::Nanoseconds> largest(blocks, std::numeric_limits<int64_t>::min());
    for (uint32_t place = 0; place < blocks * kBlock; ++place) {
      profile::Nanoseconds& known = largest[place / kBlock];
      known = std::max(known, levels_.empty() ? end_of(place) : levels_.back()[place]);
    }
    levels_.push_back(std::move(largest));
  }
}

template <typename EndOf>
uint32_t LatestEnds::Find(uint32_t first, uint32_t last, profile::Nanoseconds at,
                          const EndOf& end_of) const {
  while (last > first) {
    uint64_t ended = 0;  // places in front of `last`, by the largest block that begins behind first
    uint64_t size = kBlock;
    for (const std::vector<profile::Nanoseconds>& level : levels_) {
      if (last % size != 0 || last - first < size || level[last / size - 1] > at) {
        break;
      }
      ended = size;
      size *= kBlock;
    }
    if (ended > 0) {
      last -= static_cast<uint32_t>(ended);
    } else if (end_of(--last) > at) {
      return last;
    }
  }
  return kNone;
}

// Marked ranges that older profilers and other devices write as operators.
bool IsAnnotationName(std::string_view name);

template <typename Visit>
void HostTree::VisitStretches(profile::TextId process, profile::TextId thread,
                              profile::Nanoseconds from, profile::Nanoseconds to,
                              const Visit& visit) const {
  const Thread* place = ThreadOf(process, thread);
  if (place == nullptr) {
    if (from < to) {
      visit(kNone, to - from);
    }
    return;
  }
  uint32_t node = FindIn(*place, from);
  uint32_t next = FirstAfter(*place, from);
  while (from < to) {
    profile::Nanoseconds until = to;
    if (next < place->end && nodes_[next].start < until) {
      until = nodes_[next].start;
    }
    if (node != kNone && nodes_[node].end < until) {
      until = nodes_[node].end;
    }
    if (until > from) {
      visit(node, until - from);
      from = until;
    }
    if (next < place->end && nodes_[next].start <= from) {
      node = next++;
    }
    while (node != kNone && nodes_[node].end <= from) {
      node = nodes_[node].parent;
    }
  }
}

enum class WorkKind : uint8_t { kComputing, kCommunication, kCopy };

// Whose work it is.
enum class Owner : uint8_t {
  kOperator,  // launched inside of an operator
  kGraph,     // launched by a graph that no operator launched
  kCopy,      // a copy or fill that no operator asked for
  kEarlier,   // launched before the profile (or the chosen step) began
  kOutside,   // launched by code outside of operators
  kUnknown    // nothing tells what launched it
};
inline constexpr size_t kOwnerCount = 6;

struct WorkItem {
  profile::Nanoseconds start = 0;
  profile::Nanoseconds end = 0;
  double us = 0;                      // as the file gives it
  double uncovered_us = 0;            // communication: not hidden behind computing; copies: nor
                                      // behind communication; computing: all of it
  profile::Nanoseconds launched = 0;  // on the host, where has_launch
  profile::TextId name = profile::kNoText;
  profile::TextId process = profile::kNoText;  // of the launch
  profile::TextId thread = profile::kNoText;
  uint32_t node = HostTree::kNone;  // the innermost around the launch
  uint32_t kernel = UINT32_MAX;     // into Profile::kernels, of those
  WorkKind kind = WorkKind::kComputing;
  Owner owner = Owner::kUnknown;
  bool has_launch = false;
  bool by_graph = false;
};

// Intervals without overlap, rising.
class BusyTime {
 public:
  // Must come with rising starts.
  void Add(profile::Nanoseconds start, profile::Nanoseconds end);
  profile::Nanoseconds total() const { return total_; }
  // How much of [from, to) is busy.
  profile::Nanoseconds Within(profile::Nanoseconds from, profile::Nanoseconds to) const;
  std::span<const profile::Interval> intervals() const { return intervals_; }

 private:
  std::vector<profile::Interval> intervals_;
  std::vector<profile::Nanoseconds> before_;  // busy time in front of each interval
  profile::Nanoseconds total_ = 0;
};

class DeviceWork {
 public:
  // With `step` only what was launched in a step marker of that number; of a GPU's trace. Work that
  // nothing on the host is known to have launched goes by the launch before it, or by its own start
  // where launches are not numbered.
  DeviceWork(const profile::Profile& side, const HostTree& tree,
             const std::optional<std::string>& step);

  const profile::Profile& profile() const { return *profile_; }
  const HostTree& tree() const { return *tree_; }
  std::span<const WorkItem> items() const { return items_; }  // rising by start
  const TimeSplit& split() const { return split_; }
  const BusyTime& busy() const { return busy_; }
  // Device time by whose it is, in ms: the sum over all work, overlap counted twice.
  double owned_ms(Owner owner) const { return owned_ms_[static_cast<size_t>(owner)]; }
  double total_ms() const;

 private:
  void Gather();
  void Link();
  void KeepStep(const std::string& step);
  void Split();

  const profile::Profile* profile_;
  const HostTree* tree_;
  std::vector<WorkItem> items_;
  TimeSplit split_;
  BusyTime busy_;
  std::array<double, kOwnerCount> owned_ms_{};
};

}  // namespace msprobe::analysis::perf
