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

using profile::kNoCorrelation;
using profile::kNoText;
using profile::Nanoseconds;
using profile::Profile;
using profile::TextId;

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
  explicit FlowEnds(const Profile& side)
      : flows_(side.flows),
        order_(OrderBy(flows_.size(), [this](uint32_t flow) { return KeyOf(flows_[flow]); })) {}

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

// The kind of work of a kernel, found once for every name and category.
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
    // An NPU's collectives are in a list of their own, whether linked or not.
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
        item.owner = before == nullptr ? Owner::kBeforeWindow : Owner::kUnknown;
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
    } else if (item.owner != Owner::kBeforeWindow) {
      item.owner = item.kind == WorkKind::kCopy ? Owner::kCopy
                   : item.has_launch            ? Owner::kUnattributed
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
                                if (item.owner == Owner::kBeforeWindow) {
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
