#include "src/profile/common/host_events.h"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::profile {

void FlowTable::Add(const TraceEvent& event, Texts& texts) {
  const TextId process = texts.Intern(event.process);
  if (event.phase != 's' && event.phase != 'f') {
    return;
  }
  const auto next = static_cast<uint32_t>(flows_.size());
  const std::optional<int64_t> number = base::ParseInt(event.id);
  const uint32_t place = number.has_value()
                             ? numbered_.try_emplace(*number, next).first->second
                             : named_.try_emplace(names_.Intern(event.id), next).first->second;
  if (place == next) {
    flows_.emplace_back();
  }
  Ends& ends = flows_[place];
  if (event.phase == 's') {
    ends.flow.start = *event.start;
    ends.flow.start_process = process;
    ends.flow.start_thread = texts.Intern(event.thread);
    ends.has_start = true;
  } else {
    ends.flow.end = *event.start;
    ends.flow.end_process = process;
    ends.flow.end_thread = texts.Intern(event.thread);
    ends.has_end = true;
  }
}

std::vector<Flow> FlowTable::Complete() const {
  std::vector<Flow> complete;
  for (const Ends& ends : flows_) {
    if (ends.has_start && ends.has_end) {
      complete.push_back(ends.flow);
    }
  }
  return complete;
}

bool IsStepMarker(std::string_view operator_name) {
  constexpr std::string_view kMarker = "profilerstep#";
  for (size_t at = operator_name.find('#'); at != std::string_view::npos;
       at = operator_name.find('#', at + 1)) {
    if (at + 1 >= kMarker.size() &&
        base::EqualsIgnoringCase(operator_name.substr(at + 1 - kMarker.size(), kMarker.size()),
                                 kMarker)) {
      return true;
    }
  }
  return false;
}

namespace {

// B/E pairs arrive in the order of their ends.
void SortByStart(Profile& profile) {
  const auto sort = [](auto& events) {
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
  };
  sort(profile.operators);
  sort(profile.runtime_calls);
  sort(profile.kernels);
  sort(profile.further_device_work);
  sort(profile.python_calls);
  sort(profile.steps);
}

}  // namespace

bool HasUsableTime(const TraceEvent& event, Nanoseconds earliest) {
  return event.start.has_value() && *event.start >= earliest && event.duration.value_or(0) >= 0;
}

void AddOperator(const TraceEvent& event, const Needs& needs, Profile& profile) {
  Texts& texts = profile.texts;
  Operator& added = profile.operators.emplace_back();
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
  if (needs.python_calls) {
    added.call_stack = texts.Intern(event.argument(Argument::kCallStack).text);
  }
  added.start = *event.start;
  added.end = event.end();
  added.duration_us = event.duration_us;
  if (IsStepMarker(event.name)) {
    profile.steps.push_back(
        {std::string(event.name.substr(event.name.rfind('#') + 1)), added.start, added.end});
  }
}

void AddPythonCall(const TraceEvent& event, Profile& profile) {
  constexpr std::string_view kModule = "nn.module:";
  PythonCall& call = profile.python_calls.emplace_back();
  call.name = profile.texts.Intern(WithoutAddresses(event.name));
  call.is_module = base::AsciiLower(event.name.substr(0, kModule.size())) == kModule;
  call.start = *event.start;
  call.end = event.end();
  call.process = profile.texts.Intern(event.process);
  call.thread = profile.texts.Intern(event.thread);
}

void WarnOfMissing(const std::filesystem::path& file, const Needs& needs, Profile& profile) {
  const auto warn = [&](bool missing, std::string_view what) {
    if (missing) {
      profile.warnings.push_back(fmt::format("{} holds no {}", file.string(), what));
    }
  };
  warn(needs.operators && profile.operators.empty(), "host operators");
  warn(needs.kernels && profile.kernels.empty(), "device kernels (profiler level 0 records none)");
  warn(needs.flows && profile.flows.empty(),
       "links from operators to kernels: no device time can be given to an operator");
  warn(needs.communication && profile.communication.empty(), "collectives");
}

Status NoProfileError(const std::filesystem::path& file, const TraceOutcome& outcome) {
  std::string what = fmt::format("of {} none is an operator, a kernel or a runtime call",
                                 base::Plural(outcome.events, "event"));
  if (outcome.events == 0 && outcome.truncated) {
    what = outcome.root == TraceRoot::kObject
               ? "it is a JSON object without complete events in a list \"traceEvents\""
               : "it is truncated before the first complete event";
  } else if (outcome.events == 0) {
    what = outcome.root == TraceRoot::kObject ? "its list \"traceEvents\" holds no event"
                                              : "it is a JSON list without events";
  }
  if (outcome.damaged > 0) {
    what += fmt::format("; {} left out, the first one at {}",
                        base::Plural(outcome.damaged, "damaged event"), outcome.first_damage);
  }
  return BadFormatError(fmt::format("{} is not a profile: {}", file.string(), what))
      .WithHint(
          "name what torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote, or a "
          "folder of Ascend's profiler");
}

Status Conclude(const std::filesystem::path& file, const TraceOutcome& outcome,
                uint64_t without_time, const Needs& needs, Profile& profile) {
  if (outcome.unpacks_too_far) {
    const std::string what = fmt::format(
        "{} unpacks to more than any trace of its size: what comes after event {} is "
        "left out",
        file.string(), outcome.events);
    if (needs.strict) {
      return BadFormatError(what).WithHint("unpack it and name the unpacked file");
    }
    profile.warnings.push_back(what + "; unpack it and name the unpacked file");
  } else if (outcome.truncated && needs.strict) {
    return BadFormatError(
               fmt::format("{} is truncated after event {}", file.string(), outcome.events))
        .WithHint("copy it again, or omit --strict to use its complete events");
  }
  if (outcome.damaged > 0 && needs.strict) {
    return BadFormatError(fmt::format("{} {}", file.string(), outcome.first_damage))
        .WithHint("omit --strict to use the other events");
  }
  if (outcome.joined > 0) {
    SortByStart(profile);
  }
  if (outcome.damaged > 0) {
    profile.warnings.push_back(fmt::format("{}: {} left out, the first one at {}", file.string(),
                                           base::Plural(outcome.damaged, "damaged event"),
                                           outcome.first_damage));
  }
  if (outcome.unpaired > 0) {
    profile.warnings.push_back(fmt::format("{}: {} left out whose beginning or end is missing",
                                           file.string(), base::Plural(outcome.unpaired, "event")));
  }
  if (without_time > 0) {
    profile.warnings.push_back(fmt::format("{}: {} without a usable time left out", file.string(),
                                           base::Plural(without_time, "event")));
  }
  if (outcome.truncated && !outcome.unpacks_too_far) {
    profile.warnings.push_back(fmt::format("{} is truncated: its {} complete events are used",
                                           file.string(), outcome.events));
  }
  return {};
}

}  // namespace msprobe::profile
