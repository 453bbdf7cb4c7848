#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/profile/flow_table.h"
#include "src/profile/gpu_memory.h"
#include "src/profile/kernel_table.h"
#include "src/profile/readers.h"
#include "src/profile/trace_events.h"

namespace msprobe::profile {
namespace {

constexpr double kBytesPerGb = 1024.0 * 1024.0 * 1024.0;
constexpr std::string_view kStepMark = "ProfilerStep#";

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
    if (!event.start.has_value()) {
      ++without_time_;
      return true;
    }
    switch (kind) {
      case EventClass::kOperator:
        AddOperator(event);
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
        AddPythonCall(event);
        break;
      case EventClass::kOther:
        break;
    }
    if (is_memory) {
      AddMemory(event);
    }
    return true;
  }

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
    if (without_time_ > 0) {
      profile_.warnings.push_back(fmt::format("{}: {} events without a readable time are left out",
                                              path.string(), without_time_));
    }
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

  void AddOperator(const TraceEvent& event) {
    if (!needs_.operators) {
      return;
    }
    Texts& texts = profile_.texts;
    Operator& added = profile_.operators.emplace_back();
    added.name = texts.Intern(event.name);
    added.thread = texts.Intern(event.thread);
    added.process = texts.Intern(event.process);
    const auto intern = [&](std::string_view text, bool present) {
      return texts.Intern(present ? text : std::string_view("N/A"));
    };
    const ArgumentValue& shapes = event.argument(Argument::kShapes);
    added.shapes = intern(shapes.text, shapes.present());
    added.shape_key = intern(shapes.joined, shapes.present());
    const ArgumentValue& types = event.argument(Argument::kTypes);
    added.types = intern(types.text, types.present());
    if (needs_.python_calls) {
      added.call_stack = texts.Intern(event.argument(Argument::kCallStack).text);
    }
    added.start = *event.start;
    added.end = event.end();
    added.duration_us = event.duration_us;
    if (const size_t mark = event.name.find(kStepMark); mark != std::string_view::npos) {
      profile_.steps.push_back(
          {std::string(event.name.substr(event.name.rfind('#') + 1)), added.start, added.end});
    }
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
    if (!wanted) {
      return;
    }
    const TextId process = profile_.texts.Intern(event.process);
    if (event.phase == 's') {
      table.Begin(event.id, *event.start, process);
    } else if (event.phase == 'f') {
      table.End(event.id, *event.start, process, profile_.texts.Intern(event.thread));
    }
  }

  void AddPythonCall(const TraceEvent& event) {
    if (!needs_.python_calls) {
      return;
    }
    constexpr std::string_view kModule = "nn.module:";
    PythonCall& call = profile_.python_calls.emplace_back();
    call.name = profile_.texts.Intern(event.name);
    call.is_module = base::AsciiLower(event.name.substr(0, kModule.size())) == kModule;
    call.start = *event.start;
    call.end = event.end();
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
  if (outcome.truncated && needs.strict) {
    return BadFormatError(
               fmt::format("{} breaks off behind event {}", file.string(), outcome.events))
        .WithHint("copy it again, or leave --strict out to use what is complete");
  }
  Profile profile = reader.Take(file);
  if (outcome.truncated) {
    profile.warnings.push_back(fmt::format("{} breaks off: the {} complete events are used",
                                           file.string(), outcome.events));
  }
  return profile;
}

}  // namespace msprobe::profile
