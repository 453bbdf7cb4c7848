#include "src/analysis/perf/host_tree.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/profile/common/step_marker.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Nanoseconds;
using profile::TextId;
using Kind = HostTree::Kind;

uint64_t KeyOf(TextId process, TextId thread) { return uint64_t{process} << 32U | thread; }

Kind KindOf(profile::CallKind kind, std::string_view name) {
  if (profile::IsStepMarker(name)) {
    return Kind::kStep;
  }
  switch (kind) {
    case profile::CallKind::kRuntime:
      return Kind::kRuntime;
    case profile::CallKind::kAnnotation:
      return Kind::kAnnotation;
    case profile::CallKind::kOperator:
      break;
  }
  return IsAnnotationName(name) ? Kind::kAnnotation : Kind::kOperator;
}

}  // namespace

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
  const auto each_python_call = [&](const auto& visit) {
    for (const profile::PythonCall& call : side.python_calls) {
      visit(number_of(call.process, call.thread),
            Node{call.start, call.end, 0, call.name, kNone, kNone, kNone,
                 call.is_module ? Kind::kModule : Kind::kPython});
    }
  };
  const auto each_runtime_call = [&](const auto& visit) {
    for (const profile::RuntimeCall& call : side.runtime_calls) {
      visit(number_of(call.process, call.thread),
            Node{call.start, call.end, 0, call.name, kNone, kNone, kNone, Kind::kRuntime});
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
  // Of those that begin together the longer one holds the shorter one; of equal ones what may call
  // the other comes first (a python function its operators, an operator its runtime calls).
  const auto outer_first = [](const Node& a, const Node& b) {
    if (a.start != b.start) {
      return a.start < b.start;
    }
    if (a.end != b.end) {
      return a.end > b.end;
    }
    const auto rank = [](Kind kind) {
      constexpr uint8_t kRanks[] = {/*operator*/ 3, /*annotation*/ 1, /*step*/ 0,
                                    /*module*/ 2,   /*python*/ 2,     /*runtime*/ 4};
      return kRanks[static_cast<size_t>(kind)];
    };
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
    while (last != kNone && nodes_[last].end <= node.start) {
      last = nodes_[last].parent;
    }
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

}  // namespace msprobe::analysis::perf
