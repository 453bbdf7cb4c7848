#include "src/analysis/perf/nesting.h"

#include <limits>

#include "src/profile/common/host_events.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Nanoseconds;
using profile::TextId;
using Kind = HostTree::Kind;

// The innermost node that is open at a time: `last`, or the nearest around it that has not ended.
template <typename Nodes, typename HasEnded>
uint32_t StillOpen(Nodes& nodes, uint32_t last, const HasEnded& has_ended) {
  while (last != kNoNode && has_ended(nodes[last])) {
    last = nodes[last].parent;
  }
  return last;
}

}  // namespace

NestedIntervals::NestedIntervals(std::span<const Interval> intervals,
                                 std::span<const Nanoseconds> markers, uint32_t max_depth) {
  nodes_.reserve(intervals.size());
  uint32_t last = kNoNode;
  uint32_t depth = 0;
  const auto close = [&](const auto& has_ended) {
    last = StillOpen(nodes_, last, [&](Node& node) {
      if (!has_ended(node)) {
        return false;
      }
      node.last_marker = static_cast<uint32_t>(placed_.size());
      --depth;
      return true;
    });
  };
  const auto close_before = [&](Nanoseconds now) {
    close([now](const Node& node) { return node.end < now; });
  };
  uint32_t marker = 0;
  const auto place_markers = [&](const auto& is_due) {
    for (; marker < markers.size() && is_due(markers[marker]); ++marker) {
      close_before(markers[marker]);
      if (last != kNoNode) {
        placed_.push_back({marker, last});
      }
    }
  };
  for (const uint32_t index :
       OrderBy(intervals.size(), [&](uint32_t i) { return intervals[i].start; })) {
    const Interval& interval = intervals[index];
    place_markers([&](Nanoseconds at) { return at < interval.start; });
    close_before(interval.start);
    if (depth == max_depth) {
      cut_ = true;
      continue;
    }
    const auto first_marker = static_cast<uint32_t>(placed_.size());
    nodes_.push_back({index, last, first_marker, first_marker, interval.start, interval.end});
    last = static_cast<uint32_t>(nodes_.size() - 1);
    ++depth;
  }
  place_markers([](Nanoseconds /*unused*/) { return true; });
  close([](const Node& /*unused*/) { return true; });
  children_ = Lists(
      nodes_.size(), nodes_.size(), [this](size_t node) { return nodes_[node].parent; },
      [](size_t node) { return static_cast<uint32_t>(node); });
}

uint32_t NestedIntervals::Find(Nanoseconds time) const {
  uint32_t found = kNoNode;
  std::span<const uint32_t> level = roots();
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

namespace {

uint64_t KeyOf(TextId process, TextId thread) { return uint64_t{process} << 32U | thread; }

// The kind of a call that does not belong to the runtime.
Kind KindOf(profile::CallKind kind, std::string_view name) {
  if (profile::IsStepMarker(name)) {
    return Kind::kStep;
  }
  return kind == profile::CallKind::kAnnotation || IsAnnotationName(name) ? Kind::kAnnotation
                                                                          : Kind::kOperator;
}

}  // namespace

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

bool IsAnnotationName(std::string_view name) {
  return name.starts_with("##") || name.starts_with("Optimizer.") ||
         name.starts_with("enumerate(DataLoader)") || name.starts_with("nccl:") ||
         name.starts_with("DistributedDataParallel.") ||
         name.starts_with("FullyShardedDataParallel.") || name.starts_with("[param|") ||
         name.starts_with("[pg_name") || name.starts_with("PyTorch Profiler");
}

HostTree::HostTree(const profile::Profile& side) {
  Gather(side);
  for (const Thread& thread : threads_) {
    Nest(thread);
  }
  ends_.Build(static_cast<uint32_t>(nodes_.size()),
              [this](uint32_t node) { return nodes_[node].end; });
}

void HostTree::Gather(const profile::Profile& side) {
  // Number of every thread, in order of first appearance, and how many nodes it has.
  uint64_t last_key = UINT64_MAX;
  uint32_t last_number = 0;
  const auto number_of = [&](TextId process, TextId thread) {
    const uint64_t key = KeyOf(process, thread);
    if (key != last_key) {
      const auto [found, is_new] =
          numbers_.try_emplace(key, static_cast<uint32_t>(threads_.size()));
      if (is_new) {
        threads_.push_back({process, thread, 0, 0, 0, 0});
      }
      last_key = key;
      last_number = found->second;
    }
    return last_number;
  };
  std::vector<uint8_t> kinds(side.texts.size(), UINT8_MAX);  // of names as operators
  const auto each_operator = [&](const auto& visit) {
    for (uint32_t i = 0; i < side.operators.size(); ++i) {
      const profile::Operator& call = side.operators[i];
      if (call.kind == profile::CallKind::kRuntime && !side.runtime_calls.empty()) {
        continue;
      }
      Kind kind = Kind::kRuntime;
      if (call.kind != profile::CallKind::kRuntime) {
        uint8_t& known = kinds[call.name];
        if (known == UINT8_MAX || call.kind == profile::CallKind::kAnnotation) {
          known = static_cast<uint8_t>(KindOf(call.kind, side.texts[call.name]));
        }
        kind = static_cast<Kind>(known);
      }
      visit(number_of(call.process, call.thread),
            Node{call.start, call.end, 0, call.name, kNone, i, kNone, kind});
    }
  };
  const auto visit_call = [&](const auto& call, Kind kind, const auto& visit) {
    visit(number_of(call.process, call.thread),
          Node{call.start, call.end, 0, call.name, kNone, kNone, kNone, kind});
  };
  const auto each_python_call = [&](const auto& visit) {
    for (const profile::PythonCall& call : side.python_calls) {
      visit_call(call, call.is_module ? Kind::kModule : Kind::kPython, visit);
    }
  };
  const auto each_runtime_call = [&](const auto& visit) {
    for (const profile::RuntimeCall& call : side.runtime_calls) {
      visit_call(call, Kind::kRuntime, visit);
    }
  };
  const auto count = [&](uint32_t thread, const Node& /*unused*/) { ++threads_[thread].end; };
  each_operator(count);
  each_python_call(count);
  each_runtime_call(count);
  uint32_t begin = 0;
  for (Thread& thread : threads_) {
    thread.begin = begin;
    begin += thread.end;
    thread.end = thread.begin;
  }
  nodes_.resize(begin);
  const auto place = [&](uint32_t thread, const Node& node) {
    nodes_[threads_[thread].end++] = node;
  };
  each_operator(place);
  for (Thread& thread : threads_) {
    thread.python = thread.end;
  }
  each_python_call(place);
  for (Thread& thread : threads_) {
    thread.runtime = thread.end;
  }
  each_runtime_call(place);
}

void HostTree::Nest(const Thread& thread) {
  const auto begin = nodes_.begin() + thread.begin;
  const auto end = nodes_.begin() + thread.end;
  const auto outer_first = [](const Node& a, const Node& b) {
    if (a.start != b.start) {
      return a.start < b.start;
    }
    if (a.end != b.end) {
      return a.end > b.end;
    }
    const auto rank = [](Kind kind) { return kind == Kind::kPython ? Kind::kModule : kind; };
    return rank(a.kind) < rank(b.kind);
  };
  // Each kind comes sorted from most profilers.
  const auto python = nodes_.begin() + thread.python;
  const auto runtime = nodes_.begin() + thread.runtime;
  for (const auto& [from, to] : {std::pair{begin, python}, {python, runtime}, {runtime, end}}) {
    if (!std::is_sorted(from, to, outer_first)) {
      std::stable_sort(from, to, outer_first);
    }
  }
  std::inplace_merge(begin, python, runtime, outer_first);
  std::inplace_merge(begin, runtime, end, outer_first);
  uint32_t last = kNone;
  for (uint32_t i = thread.begin; i < thread.end; ++i) {
    Node& node = nodes_[i];
    node.self = node.end - node.start;
    last = StillOpen(nodes_, last, [&](const Node& open) { return open.end <= node.start; });
    node.parent = last;
    node.caller = node.kind == Kind::kOperator ? i : OperatorOf(last);
    // A call that outlasts its caller (a frame in which a step ends and the next one begins) takes
    // the rest of its time from what goes on around the caller.
    Nanoseconds from = node.start;
    uint32_t around = last;
    for (int step = 0; around != kNone && from < node.end && step < kDeepest; ++step) {
      const Nanoseconds until = std::min(node.end, nodes_[around].end);
      if (until > from) {
        nodes_[around].self -= until - from;
        from = until;
      }
      around = nodes_[around].parent;
    }
    last = i;
  }
}

const HostTree::Thread* HostTree::ThreadOf(TextId process, TextId thread) const {
  const auto found = numbers_.find(KeyOf(process, thread));
  return found == numbers_.end() ? nullptr : &threads_[found->second];
}

uint32_t HostTree::FirstAfter(const Thread& thread, Nanoseconds at) const {
  const auto begin = nodes_.begin() + thread.begin;
  const auto end = nodes_.begin() + thread.end;
  const auto after = std::upper_bound(
      begin, end, at, [](Nanoseconds time, const Node& node) { return time < node.start; });
  return static_cast<uint32_t>(after - nodes_.begin());
}

uint32_t HostTree::FindIn(const Thread& thread, Nanoseconds at) const {
  const uint32_t after = FirstAfter(thread, at);
  if (after == thread.begin) {
    return kNone;
  }
  uint32_t node = after - 1;
  if (nodes_[node].start == at) {
    return node;
  }
  constexpr int kClimbed = 64;  // a nest that has ended may be as deep as the file is long
  for (int step = 0; node != kNone && nodes_[node].end <= at; ++step) {
    if (step == kClimbed) {
      // All that began before and goes on lies around each other: the last one is the innermost.
      return ends_.Find(thread.begin, node, at,
                        [this](uint32_t place) { return nodes_[place].end; });
    }
    node = nodes_[node].parent;
  }
  return node;
}

void HostTree::MakeAllThreads() const {
  std::vector<uint32_t>& order = all_threads_->nodes;
  order.reserve(nodes_.size());
  for (size_t thread = threads_.size(); thread-- > 0;) {
    for (uint32_t node = threads_[thread].begin; node < threads_[thread].end; ++node) {
      order.push_back(node);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [this](uint32_t a, uint32_t b) { return nodes_[a].start < nodes_[b].start; });
  all_threads_->ends.Build(static_cast<uint32_t>(order.size()),
                           [&](uint32_t place) { return nodes_[order[place]].end; });
}

uint32_t HostTree::FindInAll(Nanoseconds at) const {
  std::call_once(all_threads_->made, [this] { MakeAllThreads(); });
  const std::vector<uint32_t>& order = all_threads_->nodes;
  const auto after = std::upper_bound(
      order.begin(), order.end(), at,
      [this](Nanoseconds time, uint32_t node) { return time < nodes_[node].start; });
  const auto count = static_cast<uint32_t>(after - order.begin());
  if (count > 0 && nodes_[order[count - 1]].start == at) {
    return order[count - 1];
  }
  const uint32_t place = all_threads_->ends.Find(
      0, count, at, [&](uint32_t other) { return nodes_[order[other]].end; });
  return place == LatestEnds::kNone ? kNone : order[place];
}

uint32_t HostTree::Find(TextId process, TextId thread, Nanoseconds at) const {
  if (thread != profile::kNoText) {
    const Thread* place = ThreadOf(process, thread);
    return place == nullptr ? kNone : FindIn(*place, at);
  }
  constexpr size_t kFewThreads = 16;
  if (threads_.size() > kFewThreads) {
    return FindInAll(at);
  }
  uint32_t best = kNone;
  for (const Thread& known : threads_) {
    const uint32_t node = FindIn(known, at);
    if (node != kNone && (best == kNone || nodes_[node].start > nodes_[best].start)) {
      best = node;
    }
  }
  return best;
}

void HostTree::VisitStretches(TextId process, TextId thread, Nanoseconds from, Nanoseconds to,
                              const std::function<void(uint32_t, Nanoseconds)>& visit) const {
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
    Nanoseconds until = to;
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
    node = StillOpen(nodes_, node, [&](const Node& open) { return open.end <= from; });
  }
}

}  // namespace msprobe::analysis::perf
