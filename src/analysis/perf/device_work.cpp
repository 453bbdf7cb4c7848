#include "src/analysis/perf/device_work.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "src/analysis/perf/kernel_compare.h"
#include "src/analysis/perf/sheet.h"
#include "src/profile/common/host_events.h"

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

namespace {

using profile::kNoCorrelation;
using profile::kNoText;
using profile::Profile;

// Runtime calls by the number that their work on the device has, too.
class NumberedCalls {
 public:
  explicit NumberedCalls(const Profile& side) : calls_(side.runtime_calls) {
    for (uint32_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i].correlation != kNoCorrelation) {
        numbers_.emplace_back(calls_[i].correlation, i);
      }
    }
    if (!std::is_sorted(numbers_.begin(), numbers_.end())) {
      std::sort(numbers_.begin(), numbers_.end());
    }
  }

  bool empty() const { return numbers_.empty(); }
  // The first of a number; null: none has it.
  const profile::RuntimeCall* Find(int64_t number) const {
    const auto found = LowerBound(number);
    return found != numbers_.end() && found->first == number ? &calls_[found->second] : nullptr;
  }
  // The last one numbered below; null: the number was given before the first call.
  const profile::RuntimeCall* Before(int64_t number) const {
    const auto found = LowerBound(number);
    return found == numbers_.begin() ? nullptr : &calls_[(found - 1)->second];
  }

 private:
  std::vector<std::pair<int64_t, uint32_t>>::const_iterator LowerBound(int64_t number) const {
    return std::lower_bound(numbers_.begin(), numbers_.end(), std::pair(number, uint32_t{0}));
  }

  const std::vector<profile::RuntimeCall>& calls_;
  std::vector<std::pair<int64_t, uint32_t>> numbers_;
};

// Flows by where they end.
class FlowEnds {
 public:
  explicit FlowEnds(const Profile& side) : flows_(side.flows), order_(flows_.size()) {
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) {
      return KeyOf(flows_[a]) < KeyOf(flows_[b]);
    });
  }

  const profile::Flow* Find(const profile::Kernel& kernel) const {
    const auto key = std::make_tuple(kernel.start, kernel.process, kernel.thread);
    const auto found = std::lower_bound(
        order_.begin(), order_.end(), key,
        [this](uint32_t a, const auto& wanted) { return KeyOf(flows_[a]) < wanted; });
    return found != order_.end() && KeyOf(flows_[*found]) == key ? &flows_[*found] : nullptr;
  }

 private:
  static std::tuple<Nanoseconds, TextId, TextId> KeyOf(const profile::Flow& flow) {
    return {flow.end, flow.end_process, flow.end_thread};
  }

  const std::vector<profile::Flow>& flows_;
  std::vector<uint32_t> order_;
};

// What kind of work a kernel is, asked once for every name and category.
class WorkKinds {
 public:
  explicit WorkKinds(const Profile& side)
      : side_(side), is_gpu_(side.device == profile::Device::kGpu), known_(side.texts.size()) {}

  // nullopt: no work (an NPU's wait for an event).
  std::optional<WorkKind> Of(const profile::Kernel& kernel) {
    if (!is_gpu_) {
      return KindOfNpuTask(side_.texts[kernel.task_type]);
    }
    // "gpu_memcpy", "gpu_memset", "memcpy", "memset".
    if (side_.texts[kernel.task_type].find("mem") != std::string_view::npos) {
      return WorkKind::kCopy;
    }
    uint8_t& known = known_[kernel.name];
    if (known == 0) {
      const std::string_view name = side_.texts[kernel.name];
      const WorkKind kind = IsCommunicationKernel(name) ? WorkKind::kCommunication
                            : IsCopyKernel(name)        ? WorkKind::kCopy
                                                        : WorkKind::kComputing;
      known = static_cast<uint8_t>(kind) + 1;
    }
    return static_cast<WorkKind>(known - 1);
  }

 private:
  static std::optional<WorkKind> KindOfNpuTask(std::string_view type) {
    if (type == "EVENT_WAIT_SQE" || type == "EVENT_RECORD_SQE" || type == "NOTIFY_WAIT_SQE") {
      return std::nullopt;
    }
    return type == "SDMA_SQE" || type == "PCIE_DMA_SQE" ? WorkKind::kCopy : WorkKind::kComputing;
  }

  const Profile& side_;
  const bool is_gpu_;
  std::vector<uint8_t> known_;  // by name: 0 or the kind + 1
};

}  // namespace

void BusyTime::Add(Nanoseconds start, Nanoseconds end) {
  if (end <= start) {
    return;
  }
  if (!intervals_.empty() && start <= intervals_.back().end) {
    total_ += std::max<Nanoseconds>(0, end - intervals_.back().end);
    intervals_.back().end = std::max(intervals_.back().end, end);
    return;
  }
  before_.push_back(total_);
  intervals_.push_back({start, end, 0});
  total_ += end - start;
}

Nanoseconds BusyTime::Within(Nanoseconds from, Nanoseconds to) const {
  const auto busy_until = [this](Nanoseconds at) {
    const auto after = std::upper_bound(
        intervals_.begin(), intervals_.end(), at,
        [](Nanoseconds time, const auto& interval) { return time < interval.start; });
    if (after == intervals_.begin()) {
      return Nanoseconds{0};
    }
    const auto index = static_cast<size_t>(after - intervals_.begin()) - 1;
    return before_[index] + std::min(at, intervals_[index].end) - intervals_[index].start;
  };
  return to <= from ? 0 : busy_until(to) - busy_until(from);
}

DeviceWork::DeviceWork(const Profile& side, const HostTree& tree,
                       const std::optional<std::string>& step)
    : profile_(&side), tree_(&tree) {
  Gather();
  Link();
  const auto by_start = [](const WorkItem& a, const WorkItem& b) { return a.start < b.start; };
  if (!std::is_sorted(items_.begin(), items_.end(), by_start)) {
    std::stable_sort(items_.begin(), items_.end(), by_start);
  }
  if (step.has_value() && side.device == profile::Device::kGpu) {
    KeepStep(*step);
  }
  Split();
}

double DeviceWork::total_ms() const {
  return std::accumulate(owned_ms_.begin(), owned_ms_.end(), 0.0);
}

void DeviceWork::Gather() {
  const Profile& side = *profile_;
  WorkKinds kinds(side);
  items_.reserve(side.kernels.size() + side.further_device_work.size() + side.communication.size());
  const auto add = [&](const profile::Kernel& kernel, uint32_t index) {
    const std::optional<WorkKind> kind = kinds.Of(kernel);
    if (!kind.has_value()) {
      return;
    }
    WorkItem item;
    item.start = kernel.start;
    item.end = kernel.end;
    item.us = kernel.duration_us;
    item.name = kernel.name;
    item.kernel = index;
    item.kind = *kind;
    items_.push_back(item);
  };
  const bool is_gpu = side.device == profile::Device::kGpu;
  for (uint32_t i = 0; i < side.kernels.size(); ++i) {
    // An NPU's collectives stand in a list of their own, whether linked or not.
    if (is_gpu || !side.kernels[i].is_communication) {
      add(side.kernels[i], i);
    }
  }
  for (uint32_t i = 0; i < side.further_device_work.size(); ++i) {
    add(side.further_device_work[i], static_cast<uint32_t>(side.kernels.size()) + i);
  }
  if (!is_gpu) {
    for (const profile::CommunicationOperator& operation : side.communication) {
      WorkItem item;
      item.start = operation.start;
      item.end = operation.end;
      item.us = operation.duration_us;
      item.name = operation.kind != kNoText ? operation.kind : operation.name;
      item.kind = WorkKind::kCommunication;
      items_.push_back(item);
    }
  }
}

void DeviceWork::Link() {
  const Profile& side = *profile_;
  const NumberedCalls calls(side);
  std::optional<FlowEnds> flows;
  std::vector<uint8_t> is_graph(side.texts.size());  // by name of the call: 1 no, 2 yes
  for (WorkItem& item : items_) {
    if (item.kernel == UINT32_MAX) {
      continue;
    }
    const profile::Kernel& kernel =
        item.kernel < side.kernels.size()
            ? side.kernels[item.kernel]
            : side.further_device_work[item.kernel - side.kernels.size()];
    const bool is_numbered = kernel.correlation > 0 && !calls.empty();
    if (const profile::RuntimeCall* call = is_numbered ? calls.Find(kernel.correlation) : nullptr) {
      item.has_launch = true;
      item.launched = call->start;
      item.process = call->process;
      item.thread = call->thread;
      uint8_t& known = is_graph[call->name];
      if (known == 0) {
        known = IsGraphLaunch(side.texts[call->name]) ? 2 : 1;
      }
      item.by_graph = known == 2;
    } else {
      if (!flows.has_value()) {
        flows.emplace(side);
      }
      if (const profile::Flow* flow = flows->Find(kernel)) {
        item.has_launch = true;
        item.launched = flow->start;
        item.process = flow->start_process;
        item.thread = flow->start_thread;
      } else if (is_numbered) {
        const profile::RuntimeCall* before = calls.Before(kernel.correlation);
        item.owner = before == nullptr ? Owner::kEarlier : Owner::kUnknown;
        item.launched = before == nullptr ? 0 : before->start;
      }
    }
    if (item.has_launch) {
      item.node = tree_->Find(item.process, item.thread, item.launched);
    }
    if (tree_->OperatorOf(item.node) != HostTree::kNone) {
      item.owner = Owner::kOperator;
    } else if (item.by_graph) {
      item.owner = Owner::kGraph;
    } else if (item.owner != Owner::kEarlier) {
      item.owner = item.kind == WorkKind::kCopy ? Owner::kCopy
                   : item.has_launch            ? Owner::kOutside
                                                : Owner::kUnknown;
    }
  }
}

void DeviceWork::KeepStep(const std::string& step) {
  const auto in_step = [&](Nanoseconds at) {
    return std::any_of(profile_->steps.begin(), profile_->steps.end(), [&](const auto& known) {
      return known.id == step && known.start <= at && at < known.end;
    });
  };
  items_.erase(std::remove_if(items_.begin(), items_.end(),
                              [&](const WorkItem& item) {
                                if (item.owner == Owner::kEarlier) {
                                  return true;
                                }
                                const bool knows = item.has_launch || item.launched != 0;
                                return !in_step(knows ? item.launched : item.start);
                              }),
               items_.end());
}

void DeviceWork::Split() {
  BusyTime computing;
  BusyTime with_communication;
  const Nanoseconds first = items_.empty() ? 0 : items_.front().start;
  Nanoseconds last = first;
  for (const WorkItem& item : items_) {
    last = std::max(last, item.end);
    if (item.kind == WorkKind::kComputing) {
      computing.Add(item.start, item.end);
    }
    if (item.kind != WorkKind::kCopy) {
      with_communication.Add(item.start, item.end);
    }
    busy_.Add(item.start, item.end);
  }
  for (WorkItem& item : items_) {
    const BusyTime* above = item.kind == WorkKind::kCommunication ? &computing
                            : item.kind == WorkKind::kCopy        ? &with_communication
                                                                  : nullptr;
    item.uncovered_us = item.us;
    if (above != nullptr) {
      const Nanoseconds hidden = above->Within(item.start, item.end);
      item.uncovered_us = static_cast<double>(item.end - item.start - hidden) / kNsPerUs;
    }
    if (item.kernel != UINT32_MAX) {
      owned_ms_[static_cast<size_t>(item.owner)] += item.us / kUsPerMs;
    }
  }
  const auto ms = [](Nanoseconds time) { return static_cast<double>(time) / kNsPerMs; };
  split_.end_to_end = ms(last - first);
  split_.computing = ms(computing.total());
  split_.communication = ms(with_communication.total() - computing.total());
  split_.copies = ms(busy_.total() - with_communication.total());
  split_.idle = ms(last - first - busy_.total());
}

}  // namespace msprobe::analysis::perf
