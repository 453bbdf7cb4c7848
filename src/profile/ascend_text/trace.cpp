#include "src/profile/ascend_text/trace.h"

#include <algorithm>
#include <map>

#include "src/base/strings.h"
#include "src/profile/common/host_events.h"

namespace msprobe::profile {
namespace {

enum class AscendEventClass : uint8_t {
  kOther,
  kOperator,
  kPython,
  kFlow,
  kForwardBackward,
  kEnqueue,
  kDequeue
};

AscendEventClass ClassOf(const TraceEvent& event) {
  const std::string_view category = event.category;
  if (category.empty()) {
    // Most events: those of the device. A PyTorch built without Kineto writes a bare list, too, and
    // tells calls of the host by their process.
    return event.process == "CPU functions" ? AscendEventClass::kOperator
                                            : AscendEventClass::kOther;
  }
  if (base::EqualsIgnoringCase(category, "cpu_op")) return AscendEventClass::kOperator;
  if (base::EqualsIgnoringCase(category, "async_npu")) return AscendEventClass::kFlow;
  if (base::EqualsIgnoringCase(category, "python_function")) return AscendEventClass::kPython;
  if (base::EqualsIgnoringCase(category, "fwdbwd")) return AscendEventClass::kForwardBackward;
  if (base::EqualsIgnoringCase(category, "enqueue")) return AscendEventClass::kEnqueue;
  if (base::EqualsIgnoringCase(category, "dequeue")) return AscendEventClass::kDequeue;
  return AscendEventClass::kOther;
}

uint64_t KeyOf(TextId process, TextId thread) { return (uint64_t{process} << 32U) | thread; }

}  // namespace

void TaskQueue::AddEnqueue(std::string_view correlation, Nanoseconds start) {
  enqueued_[correlations_.Intern(correlation)] = start;
}

void TaskQueue::AddDequeue(std::string_view correlation, Nanoseconds start, Nanoseconds end) {
  dequeued_.push_back({start, end, correlations_.Intern(correlation)});
}

void TaskQueue::Sort() {
  std::stable_sort(dequeued_.begin(), dequeued_.end(),
                   [](const Dequeue& a, const Dequeue& b) { return a.start < b.start; });
}

std::optional<Nanoseconds> TaskQueue::HostTime(Nanoseconds allocated) const {
  const auto after =
      std::upper_bound(dequeued_.begin(), dequeued_.end(), allocated,
                       [](Nanoseconds at, const Dequeue& dequeue) { return at < dequeue.start; });
  if (after == dequeued_.begin() || (after - 1)->end < allocated) {
    return std::nullopt;
  }
  const auto enqueued = enqueued_.find((after - 1)->correlation);
  return enqueued == enqueued_.end() ? 0 : enqueued->second;
}

Status AscendTraceReader::Read(const std::filesystem::path& file, Profile& profile) {
  MSP_ASSIGN_OR_RETURN(const TraceOutcome outcome, ForEachEvent(file, [&](const TraceEvent& event) {
                         Visit(event, profile);
                         return true;
                       }));
  if (!any_known_ && roles_.empty()) {
    return NoProfileError(file, outcome);
  }
  SortDeviceEvents(profile);
  profile.flows = flows_.Complete();
  profile.forward_backward = forward_backward_.Complete();
  queue_.Sort();
  WarnOfMissing(file, needs_, profile);
  return Conclude(file, outcome, without_time_, needs_, profile);
}

void AscendTraceReader::Visit(const TraceEvent& event, Profile& profile) {
  if (event.phase == 'M') {
    VisitMetadata(event, profile);
    return;
  }
  const AscendEventClass kind = ClassOf(event);
  if (kind == AscendEventClass::kOther && event.phase != 'X') {
    return;
  }
  if (!HasUsableTime(event)) {
    ++without_time_;
    return;
  }
  any_known_ = any_known_ || kind != AscendEventClass::kOther;
  switch (kind) {
    case AscendEventClass::kOperator:
      if (needs_.operators) {
        AddOperator(event, needs_, profile);
      }
      break;
    case AscendEventClass::kPython:
      if (needs_.python_calls) {
        AddPythonCall(event, profile);
      }
      break;
    case AscendEventClass::kFlow:
      if (needs_.flows) {
        flows_.Add(event, profile.texts);
      }
      break;
    case AscendEventClass::kForwardBackward:
      // The last end names the thread of the backward pass, whatever else is read.
      if (event.phase == 'f') {
        profile.backward_thread = profile.texts.Intern(event.thread);
      }
      if (needs_.python_calls) {
        forward_backward_.Add(event, profile.texts);
      }
      break;
    case AscendEventClass::kEnqueue:
      if (needs_.memory) {
        queue_.AddEnqueue(event.argument(Argument::kCorrelationId).text, *event.start);
      }
      break;
    case AscendEventClass::kDequeue:
      if (needs_.memory) {
        queue_.AddDequeue(event.argument(Argument::kCorrelationId).text, *event.start, event.end());
      }
      break;
    case AscendEventClass::kOther:
      VisitDevice(event, profile);
      break;
  }
}

void AscendTraceReader::VisitMetadata(const TraceEvent& event, Profile& profile) {
  Texts& texts = profile.texts;
  if (event.name == "process_name") {
    const std::string_view name = event.argument(Argument::kName).text;
    const TextId process = texts.Intern(event.process);
    Role role = Role::kHost;
    if (name == "Ascend Hardware") {
      role = Role::kHardware;
      hardware_ = process;
    } else if (name == "Communication" || name == "HCCL") {
      role = Role::kCommunication;
      communication_ = process;
    } else if (name == "Overlap Analysis") {
      role = Role::kOverlap;
      overlap_ = process;
    }
    roles_[process] = role;
  } else if (event.name == "thread_name" && needs_.communication) {
    thread_names_[KeyOf(texts.Intern(event.process), texts.Intern(event.thread))] =
        texts.Intern(event.argument(Argument::kName).text);
  } else if (event.name == "thread_sort_index" && needs_.communication) {
    if (const auto index = event.argument(Argument::kSortIndex).integer()) {
      thread_order_.push_back({{texts.Intern(event.process), texts.Intern(event.thread)}, *index});
    }
  }
}

bool AscendTraceReader::WantsDevice(Role role) const {
  switch (role) {
    case Role::kHost:
      return false;
    case Role::kHardware:
      return needs_.kernels;
    case Role::kCommunication:
      return needs_.communication;
    case Role::kOverlap:
      return needs_.overlap;
    case Role::kUnknown:
      break;
  }
  return needs_.kernels || needs_.communication || needs_.overlap;
}

// Kept until all metadata is known, and then sorted out.
void AscendTraceReader::VisitDevice(const TraceEvent& event, Profile& profile) {
  Texts& texts = profile.texts;
  const TextId process = texts.Intern(event.process);
  const auto role = roles_.find(process);
  if (!WantsDevice(role == roles_.end() ? Role::kUnknown : role->second)) {
    return;
  }
  Kernel kernel;
  kernel.name = texts.Intern(event.name);
  kernel.process = process;
  kernel.thread = texts.Intern(event.thread);
  kernel.task_type = texts.Intern(event.argument(Argument::kTaskType).text);
  kernel.task_id = texts.Intern(event.argument(Argument::kTaskId).text);
  kernel.stream = event.argument(Argument::kStreamId).integer().value_or(0);
  kernel.has_stream = kernel.stream != 0;
  kernel.start = *event.start;
  kernel.end = event.end();
  kernel.duration_us = event.duration_us;
  device_events_.push_back(kernel);
}

void AscendTraceReader::SortDeviceEvents(Profile& profile) {
  const TextId computing = profile.texts.Intern("Computing");
  const TextId uncovered = profile.texts.Intern("Communication(Not Overlapped)");
  const TextId core_task = profile.texts.Intern("C_CORE_SQE");
  SortThreads(profile);
  KernelTable kernels;
  for (const Kernel& event : device_events_) {
    const Interval interval = {event.start, event.end, event.duration_us};
    if (event.process == hardware_ && needs_.kernels) {
      kernels.Add(event);
      if (event.name == core_task) {
        profile.core_tasks.push_back(interval);
      }
    } else if (event.process == communication_ && needs_.communication) {
      AddCommunication(event, profile);
    } else if (event.process == overlap_ && needs_.overlap && event.name == computing) {
      profile.computing.push_back(interval);
    } else if (event.process == overlap_ && needs_.overlap && event.name == uncovered) {
      profile.uncovered.push_back(interval);
    }
  }
  // Collectives are launched like kernels, and come after all of them.
  for (const Kernel& event : device_events_) {
    if (needs_.kernels && needs_.communication && event.process == communication_ &&
        group_of_.count(event.thread) != 0) {
      Kernel collective = event;
      collective.is_communication = true;
      collective.has_stream = false;
      kernels.Add(collective);
    }
  }
  profile.kernels = kernels.Take();
  device_events_.clear();
}

void AscendTraceReader::SortThreads(Profile& profile) {
  std::map<int64_t, TextId> order;
  for (const auto& [thread, index] : thread_order_) {
    if (thread.process == communication_) {
      order[index] = thread.thread;
    }
  }
  for (const auto& [index, thread] : order) {
    const auto named = thread_names_.find(KeyOf(communication_, thread));
    if (named == thread_names_.end() || named->second == kNoText) {
      continue;
    }
    const std::string_view name = profile.texts[named->second];
    if (name.find("Communication") != std::string_view::npos) {
      group_of_[thread] = static_cast<uint32_t>(profile.groups.size());
      profile.groups.emplace_back().name = named->second;
    } else if (!profile.groups.empty()) {
      auto& planes = profile.groups.back().planes;
      plane_of_[thread] = {static_cast<uint32_t>(profile.groups.size() - 1),
                           static_cast<uint32_t>(planes.size())};
      planes.push_back({named->second, {}});
    }
  }
}

void AscendTraceReader::AddCommunication(const Kernel& event, Profile& profile) {
  if (const auto group = group_of_.find(event.thread); group != group_of_.end()) {
    profile.groups[group->second].operators.push_back(
        static_cast<uint32_t>(profile.communication.size()));
    CommunicationOperator& added = profile.communication.emplace_back();
    added.name = event.name;
    added.start = event.start;
    added.end = event.end;
    added.duration_us = event.duration_us;
    return;
  }
  const auto index = static_cast<uint32_t>(profile.communication_tasks.size());
  CommunicationTask& task = profile.communication_tasks.emplace_back();
  task.name = event.name;
  task.start = event.start;
  task.end = event.end;
  task.duration_us = event.duration_us;
  if (const auto plane = plane_of_.find(event.thread); plane != plane_of_.end()) {
    auto& [name, tasks] = profile.groups[plane->second.first].planes[plane->second.second];
    task.plane = name;
    tasks.push_back(index);
  }
}

}  // namespace msprobe::profile
