#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/profile/flow_table.h"
#include "src/profile/gpu_memory.h"
#include "src/profile/host_events.h"
#include "src/profile/kernel_table.h"
#include "src/profile/readers.h"
#include "src/profile/trace_events.h"

namespace msprobe::profile {
namespace {

constexpr double kBytesPerGb = 1024.0 * 1024.0 * 1024.0;

enum class EventClass : uint8_t { kOther, kOperator, kKernel, kFlow, kPython, kForwardBackward };

constexpr std::array<std::pair<std::string_view, EventClass>, 13> kClasses = {{
    {"cpu_op", EventClass::kOperator},
    {"user_annotation", EventClass::kOperator},
    {"cuda_runtime", EventClass::kOperator},
    {"operator", EventClass::kOperator},
    {"runtime", EventClass::kOperator},
    {"kernel", EventClass::kKernel},
    {"gpu_memcpy", EventClass::kKernel},
    {"async_gpu", EventClass::kFlow},
    {"async_cpu_to_gpu", EventClass::kFlow},
    {"ac2g", EventClass::kFlow},
    {"async", EventClass::kFlow},
    {"python_function", EventClass::kPython},
    {"fwdbwd", EventClass::kForwardBackward},
}};

class GpuTraceReader {
 public:
  explicit GpuTraceReader(const Needs& needs) : needs_(needs) {
    profile_.device = Device::kGpu;
    profile_.source = Source::kTrace;
  }

  bool Visit(const TraceEvent& event) {
    if (event.phase == 'M') {
      return true;
    }
    const EventClass kind = ClassOf(event.category);
    const bool is_memory = needs_.memory && base::EqualsIgnoringCase(event.name, "[memory]");
    if (kind == EventClass::kOther && !is_memory) {
      return true;
    }
    if (!HasUsableTime(event)) {
      ++without_time_;
      return true;
    }
    switch (kind) {
      case EventClass::kOperator:
        if (needs_.operators) {
          AddOperator(event, needs_, profile_);
        }
        break;
      case EventClass::kKernel:
        AddKernel(event);
        break;
      case EventClass::kFlow:
        AddFlow(event, needs_.flows, flows_);
        break;
      case EventClass::kForwardBackward:
        // The first end names the thread of the backward pass, whatever else is read.
        if (event.phase == 'f' && !profile_.backward_thread.has_value()) {
          profile_.backward_thread = profile_.texts.Intern(event.thread);
        }
        AddFlow(event, needs_.python_calls, forward_backward_);
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

  Profile Take(const std::filesystem::path& path) {
    profile_.path = path;
    profile_.kernels = kernels_.Take();
    profile_.flows = flows_.Complete();
    profile_.forward_backward = forward_backward_.Complete();
    if (needs_.memory) {
      profile_.allocations = memory_.Allocations(profile_.texts.Intern("None"));
      profile_.memory_used_gb = memory_.max_reserved_bytes() / kBytesPerGb;
    }
    const auto warn = [&](bool missing, std::string_view what) {
      if (missing) {
        profile_.warnings.push_back(fmt::format("{} holds no {}", path.string(), what));
      }
    };
    warn(needs_.operators && profile_.operators.empty(), "host operators");
    warn(needs_.kernels && profile_.kernels.empty(), "device kernels: only the host was profiled");
    warn(needs_.flows && profile_.flows.empty(),
         "links from operators to kernels: no device time can be given to an operator");
    warn(needs_.memory && memory_.empty(), "memory events (profile_memory=True records them)");
    return std::move(profile_);
  }

 private:
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

  void AddKernel(const TraceEvent& event) {
    if (!needs_.kernels) {
      return;
    }
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
    kernels_.Add(kernel);
  }

  void AddFlow(const TraceEvent& event, bool wanted, FlowTable& table) {
    if (wanted) {
      AddFlowEnd(event, profile_.texts, table);
    }
  }

  void AddMemory(const TraceEvent& event) {
    if (event.argument(Argument::kDeviceId).integer().value_or(-1) < 0) {
      return;
    }
    memory_.Add(*event.start, profile_.texts.Intern(event.start_text),
                profile_.texts.Intern(event.argument(Argument::kAddress).text),
                event.argument(Argument::kBytes).number().value_or(0),
                event.argument(Argument::kTotalReserved).number().value_or(0));
  }

  const Needs& needs_;
  Profile profile_;
  KernelTable kernels_;
  FlowTable flows_;
  FlowTable forward_backward_;
  GpuMemory memory_;
  uint64_t without_time_ = 0;
  std::string last_category_;
  EventClass last_class_ = EventClass::kOther;
};

}  // namespace

Result<Profile> ReadGpuTrace(const std::filesystem::path& file, const Needs& needs) {
  GpuTraceReader reader(needs);
  MSP_ASSIGN_OR_RETURN(const TraceOutcome outcome, ForEachEvent(file, [&](const TraceEvent& event) {
                         return reader.Visit(event);
                       }));
  const uint64_t without_time = reader.without_time();
  Profile profile = reader.Take(file);
  MSP_RETURN_IF_ERROR(Conclude(file, outcome, without_time, needs, profile));
  return profile;
}

}  // namespace msprobe::profile
