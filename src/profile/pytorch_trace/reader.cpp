#include "src/profile/pytorch_trace/reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/profile/common/host_events.h"
#include "src/profile/common/trace_events.h"
#include "src/profile/common/values.h"
#include "src/profile/profile.h"

namespace msprobe::profile {
namespace {

constexpr double kBytesPerKb = 1024;

// The memory events of a GPU trace, joined to allocations by address.
class GpuMemory {
 public:
  // `bytes` is negative for a release. Traces that record no address pass an empty one.
  void Add(Nanoseconds at, TextId at_text, TextId address, double bytes, double total_reserved) {
    events_.push_back({at, at_text, address, bytes});
    max_reserved_bytes_ = std::max(max_reserved_bytes_, total_reserved);
  }

  // In the order in which they end; what was never released comes last. `never_released` is
  // printed instead of the missing time.
  std::vector<Allocation> Allocations(TextId never_released) {
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) { return a.at < b.at; });
    std::vector<Allocation> ended;
    // The living ones, in order of allocation; a slot is emptied when its allocation ends.
    std::vector<Allocation> living;
    std::vector<bool> lives;
    std::unordered_map<TextId, size_t> by_address;
    for (const Event& event : events_) {
      const double kb = event.bytes / kBytesPerKb;
      const auto found = by_address.find(event.address);
      if (event.bytes > 0) {
        if (found != by_address.end()) {
          ended.push_back(living[found->second]);
          lives[found->second] = false;
        }
        by_address[event.address] = living.size();
        Allocation allocation;
        allocation.at = event.at;
        allocation.allocated = event.at_text;
        allocation.released = never_released;
        allocation.size_kb = kb;
        living.push_back(allocation);
        lives.push_back(true);
      } else if (event.bytes < 0 && found != by_address.end()) {
        Allocation& allocation = living[found->second];
        // A release of another size belongs to nothing that is known: neither survives.
        if (std::fabs(kb) == allocation.size_kb) {
          allocation.released = event.at_text;
          if (event.at != 0 && allocation.at != 0) {
            allocation.duration_us =
                static_cast<double>(SumOfTimes(event.at, -allocation.at)) / kNanosecondsPerUs;
          }
          ended.push_back(allocation);
        }
        lives[found->second] = false;
        by_address.erase(found);
      }
    }
    for (size_t index = 0; index < living.size(); ++index) {
      if (lives[index]) {
        ended.push_back(living[index]);
      }
    }
    return ended;
  }

  double max_reserved_bytes() const { return max_reserved_bytes_; }
  bool empty() const { return events_.empty(); }

 private:
  struct Event {
    Nanoseconds at;
    TextId at_text;
    TextId address;
    double bytes;
  };
  std::vector<Event> events_;
  double max_reserved_bytes_ = 0;
};

enum class EventClass : uint8_t {
  kOther,
  kOperator,
  kAnnotation,
  kRuntime,
  kDriver,  // launches only; no operators for the Python tool
  kKernel,
  kOtherDeviceWork,  // copies and fills that the Python tool leaves out
  kFlow,
  kPython,
  kForwardBackward
};

constexpr std::array<std::pair<std::string_view, EventClass>, 20> kClasses = {{
    {"cpu_op", EventClass::kOperator},
    {"user_annotation", EventClass::kAnnotation},
    {"cuda_runtime", EventClass::kRuntime},
    {"operator", EventClass::kOperator},
    {"runtime", EventClass::kRuntime},
    {"cuda_driver", EventClass::kDriver},
    {"hip_runtime", EventClass::kDriver},
    {"hip_driver", EventClass::kDriver},
    {"kernel", EventClass::kKernel},
    {"gpu_memcpy", EventClass::kKernel},
    {"gpu_memset", EventClass::kOtherDeviceWork},
    {"memcpy", EventClass::kOtherDeviceWork},
    {"memset", EventClass::kOtherDeviceWork},
    {"async_gpu", EventClass::kFlow},
    {"async_cpu_to_gpu", EventClass::kFlow},
    {"ac2g", EventClass::kFlow},
    {"async", EventClass::kFlow},
    {"cpu_to_cuda", EventClass::kFlow},
    {"python_function", EventClass::kPython},
    {"fwdbwd", EventClass::kForwardBackward},
}};

class GpuTraceReader {
 public:
  explicit GpuTraceReader(const Needs& needs) : needs_(needs) {
    if (needs.gpu_kernels) {
      needs_.operators = needs_.kernels = needs_.flows = true;
    }
    profile_.device = Device::kGpu;
    profile_.source = Source::kTrace;
  }

  bool Visit(const TraceEvent& event) {
    if (event.phase == 'M') {
      return true;
    }
    const EventClass kind =
        event.category.empty() ? ClassOfProcess(event) : ClassOf(event.category);
    const bool is_memory = needs_.memory && base::EqualsIgnoringCase(event.name, "[memory]");
    if (kind == EventClass::kOther && !is_memory) {
      return true;
    }
    any_known_ = true;
    if (!HasUsableTime(event, kEarliest)) {
      ++without_time_;
      return true;
    }
    earliest_ = std::min(earliest_, *event.start);
    switch (kind) {
      case EventClass::kOperator:
        AddCall(event, CallKind::kOperator);
        break;
      case EventClass::kAnnotation:
        AddCall(event, CallKind::kAnnotation);
        break;
      case EventClass::kRuntime:
        AddCall(event, CallKind::kRuntime);
        AddRuntimeCall(event, /*is_operator=*/true);
        break;
      case EventClass::kDriver:
        AddRuntimeCall(event, /*is_operator=*/false);
        break;
      case EventClass::kKernel:
        if (needs_.kernels) {
          kernels_.Add(KernelOf(event));
        }
        break;
      case EventClass::kOtherDeviceWork:
        if (needs_.kernels) {
          other_device_work_.Add(KernelOf(event));
        }
        break;
      case EventClass::kFlow:
        if (needs_.flows) {
          flows_.Add(event, profile_.texts);
        }
        break;
      case EventClass::kForwardBackward:
        // The first end names the thread of the backward pass, whatever else is read.
        if (event.phase == 'f' && !profile_.backward_thread.has_value()) {
          profile_.backward_thread = profile_.texts.Intern(event.thread);
        }
        if (needs_.python_calls) {
          forward_backward_.Add(event, profile_.texts);
        }
        break;
      case EventClass::kPython:
        if (needs_.python_calls) {
          AddPythonCall(event, profile_);
        }
        break;
      case EventClass::kOther:
        break;
    }
    if (is_memory) {
      AddMemory(event);
    }
    return true;
  }

  uint64_t without_time() const { return without_time_; }
  // An event of a kind that traces of PyTorch have was there.
  bool any_known() const { return any_known_; }

  Profile Take(const std::filesystem::path& path) {
    profile_.path = path;
    profile_.kernels = kernels_.Take();
    profile_.further_device_work = other_device_work_.Take();
    for (KernelTable* table : {&kernels_, &other_device_work_}) {
      for (const Kernel& kernel : table->TakeReplaced()) {
        profile_.further_device_work.push_back(kernel);
      }
    }
    profile_.flows = flows_.Complete();
    profile_.forward_backward = forward_backward_.Complete();
    if (needs_.memory) {
      // Where a device was profiled it is its memory that runs out.
      GpuMemory& memory = profile_.kernels.empty() && memory_.empty() ? host_memory_ : memory_;
      profile_.allocations = memory.Allocations(profile_.texts.Intern("None"));
      profile_.memory_used_gb = memory.max_reserved_bytes() / kBytesPerGb;
    }
    if (earliest_ < 0) {
      ShiftTimes(-earliest_);
    }
    const auto warn = [&](bool missing, std::string_view what) {
      if (missing && !what.empty()) {
        profile_.warnings.push_back(fmt::format("{} holds no {}", path.string(), what));
      }
    };
    warn(needs_.operators && profile_.operators.empty(), "host operators");
    warn(needs_.kernels && profile_.kernels.empty(), "device kernels: only the host was profiled");
    warn(needs_.flows && profile_.flows.empty() && !profile_.kernels.empty(),
         "links from operators to kernels: no device time can be given to an operator");
    warn(needs_.memory && memory_.empty(),
         host_memory_.empty()        ? "memory events (profile_memory=True records them)"
         : !profile_.kernels.empty() ? "memory events of a device, only of the host"
                                     : "");
    return std::move(profile_);
  }

 private:
  static constexpr Nanoseconds kEarliest = -(Nanoseconds{1} << 62U);

  // A trace that counts from a zero of its own may have negative times. Only the times that are
  // printed are absolute; all others matter relative to each other.
  void ShiftTimes(Nanoseconds by) {
    const auto shift = [by](Nanoseconds& at) { at = SumOfTimes(at, by); };
    const auto shift_all = [&](auto& events) {
      for (auto& event : events) {
        shift(event.start);
        shift(event.end);
      }
    };
    shift_all(profile_.operators);
    shift_all(profile_.runtime_calls);
    shift_all(profile_.kernels);
    shift_all(profile_.further_device_work);
    shift_all(profile_.flows);
    shift_all(profile_.forward_backward);
    shift_all(profile_.python_calls);
    shift_all(profile_.steps);
    for (Allocation& allocation : profile_.allocations) {
      shift(allocation.at);
    }
  }

  // A PyTorch built without Kineto writes no categories: the process says what an event is.
  static EventClass ClassOfProcess(const TraceEvent& event) {
    return event.process == "CPU functions"    ? EventClass::kOperator
           : event.process == "CUDA functions" ? EventClass::kKernel
                                               : EventClass::kOther;
  }

  EventClass ClassOf(std::string_view category) {
    if (category == last_category_) {
      return last_class_;
    }
    last_category_ = category;
    const std::string lower = base::AsciiLower(category);
    last_class_ = EventClass::kOther;
    for (const auto& [name, kind] : kClasses) {
      if (name == lower && !(kind == EventClass::kFlow && !needs_.flow_category.empty())) {
        last_class_ = kind;
      }
    }
    if (!needs_.flow_category.empty() && lower == needs_.flow_category) {
      last_class_ = EventClass::kFlow;
    }
    return last_class_;
  }

  void AddCall(const TraceEvent& event, CallKind kind) {
    if (needs_.operators) {
      AddOperator(event, needs_, profile_);
      profile_.operators.back().kind = kind;
    }
  }

  // `is_operator`: it was just added as one.
  void AddRuntimeCall(const TraceEvent& event, bool is_operator) {
    if (!needs_.operators || !needs_.flows) {
      return;
    }
    Texts& texts = profile_.texts;
    RuntimeCall& call = profile_.runtime_calls.emplace_back();
    if (is_operator) {
      const Operator& same = profile_.operators.back();
      call = {same.name, same.process, same.thread, same.start, same.end, kNoCorrelation};
    } else {
      call.name = texts.Intern(event.name);
      call.process = texts.Intern(event.process);
      call.thread = texts.Intern(event.thread);
      call.start = *event.start;
      call.end = event.end();
    }
    call.correlation = event.argument(Argument::kCorrelation).integer().value_or(kNoCorrelation);
  }

  Kernel KernelOf(const TraceEvent& event) {
    Texts& texts = profile_.texts;
    Kernel kernel;
    kernel.name = texts.Intern(event.name);
    kernel.process = texts.Intern(event.process);
    kernel.thread = texts.Intern(event.thread);
    kernel.task_type = texts.Intern(base::AsciiLower(event.category));
    const std::optional<int64_t> stream = event.argument(Argument::kStream).integer();
    kernel.stream = stream.value_or(0);
    kernel.has_stream = stream.has_value();
    kernel.is_communication = base::AsciiLower(event.name.substr(0, 4)) == "nccl";
    kernel.start = *event.start;
    kernel.end = event.end();
    kernel.duration_us = event.duration_us;
    kernel.correlation = event.argument(Argument::kCorrelation).integer().value_or(kNoCorrelation);
    if (event.argument(Argument::kCollective).present()) {
      kernel.collective = texts.Intern(event.argument(Argument::kCollective).text);
      kernel.elements = event.argument(Argument::kElements).integer().value_or(0);
    }
    std::string ranks(event.argument(Argument::kGroupRanks).text);
    std::erase(ranks, ' ');
    if (ranks.size() > std::string_view("[]").size()) {
      kernel.group = texts.Intern(ranks);
    } else if (event.argument(Argument::kGroupName).present()) {
      kernel.group = texts.Intern(event.argument(Argument::kGroupName).text);
    }
    return kernel;
  }

  void AddMemory(const TraceEvent& event) {
    const bool on_device = event.argument(Argument::kDeviceId).integer().value_or(-1) >= 0;
    (on_device ? memory_ : host_memory_)
        .Add(*event.start, profile_.texts.Intern(event.start_text),
             profile_.texts.Intern(event.argument(Argument::kAddress).text),
             event.argument(Argument::kBytes).number().value_or(0),
             event.argument(Argument::kTotalReserved).number().value_or(0));
  }

  Needs needs_;
  Profile profile_;
  KernelTable kernels_;
  KernelTable other_device_work_;
  FlowTable flows_;
  FlowTable forward_backward_;
  GpuMemory memory_;
  GpuMemory host_memory_;  // of tensors on the CPU
  Nanoseconds earliest_ = 0;
  uint64_t without_time_ = 0;
  bool any_known_ = false;
  std::string last_category_;
  EventClass last_class_ = EventClass::kOther;
};

}  // namespace

Result<Profile> ReadPytorchTrace(const std::filesystem::path& file, const Needs& needs) {
  GpuTraceReader reader(needs);
  MSP_ASSIGN_OR_RETURN(const TraceOutcome outcome, ForEachEvent(file, [&](const TraceEvent& event) {
                         return reader.Visit(event);
                       }));
  if (!reader.any_known()) {
    return NoProfileError(file, outcome);
  }
  const uint64_t without_time = reader.without_time();
  Profile profile = reader.Take(file);
  MSP_RETURN_IF_ERROR(Conclude(file, outcome, without_time, needs, profile));
  return profile;
}

}  // namespace msprobe::profile
