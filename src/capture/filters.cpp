#include "src/capture/filters.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/capture/name_pattern.h"
#include "src/capture/risk_level.h"
#include "src/dump/names.h"

namespace msprobe::capture {
namespace {

Result<std::vector<NamePattern>> ParsePatterns(std::string_view key,
                                               const std::vector<std::string>& elements) {
  std::vector<NamePattern> patterns;
  for (const std::string& element : elements) {
    MSP_ASSIGN_OR_RETURN(NamePattern pattern, NamePattern::Parse(element),
                         fmt::format("key \"{}\"", key));
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

bool AnyMatches(std::vector<NamePattern>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](NamePattern& pattern) { return pattern.Matches(name); });
}

// Which windows exist depends on the level: calls of APIs, of modules, or of both. Prefixes are not
// checked against a list: scripts may register APIs under their own.
Status CheckScopeName(std::string_view name, Level level) {
  const dump::EntryName parsed = dump::ParseEntryName(name);
  const bool is_call = parsed.call && parsed.direction != dump::Direction::kNone;
  const bool is_module = is_call && parsed.is_module && !parsed.class_name.empty();
  const bool is_api = is_call && !parsed.is_module && !parsed.is_debug && !parsed.kind.empty() &&
                      !parsed.subject.empty();
  if ((is_module && level != Level::kL1) || (is_api && level != Level::kL0)) {
    return {};
  }
  const char* form = level == Level::kL0   ? "Module.fc.Linear.forward.0"
                     : level == Level::kL1 ? "Functional.linear.0.forward"
                                           : "Functional.linear.0.forward or "
                                             "Module.fc.Linear.forward.0";
  return UsageError(
      fmt::format("key \"scope\": \"{}\" names no call of level {}; allowed: full "
                  "names like {}",
                  base::Printable(name), LevelName(level), form));
}

}  // namespace

struct Filters::State {
  std::vector<NamePattern> list;
  std::vector<NamePattern> tensor_list;
  bool has_scope = false;
  std::string scope_begin;
  std::string scope_end;
  Task task = Task::kStatistics;
  bool module_windows = false;
  bool extra_info = true;
  DataMode data_mode;

  bool scope_open = false;
  std::vector<std::string> open_modules;             // calls that opened a window of the list
  std::unordered_set<std::string> backward_modules;  // recorded in this step, if that matters

  RiskLevel risk_level = RiskLevel::kAll;  // where nothing else selects calls of APIs

  bool Filtered() const { return has_scope || !list.empty(); }

  bool Selects(std::string_view name) {
    return (!has_scope || scope_open) &&
           (list.empty() || !open_modules.empty() || AnyMatches(list, name));
  }

  // What is wanted of a call by the windows as they are now.
  Wanted Answer(std::string_view name, const dump::EntryName& parsed) {
    if (!Selects(name) || (risk_level != RiskLevel::kAll && !parsed.is_module &&
                           !IsAtRisk(risk_level, parsed.kind, parsed.subject))) {
      return {};
    }
    const bool backward = parsed.direction == dump::Direction::kBackward;
    if (backward && parsed.is_module && Filtered()) {
      backward_modules.emplace(name.substr(0, name.rfind(".backward.")));
    }
    const bool half = backward ? data_mode.backward : data_mode.forward;
    return {half && data_mode.input, half && data_mode.output, !backward && extra_info};
  }
};

Filters::Filters(std::unique_ptr<State> state) : state_(std::move(state)) {}
Filters::Filters(Filters&&) noexcept = default;
Filters& Filters::operator=(Filters&&) noexcept = default;
Filters::~Filters() = default;

Result<Filters> Filters::Create(const Settings& settings) {
  auto state = std::make_unique<State>();
  MSP_ASSIGN_OR_RETURN(state->list, ParsePatterns("list", settings.list));
  MSP_ASSIGN_OR_RETURN(state->tensor_list, ParsePatterns("tensor_list", settings.tensor_list));
  if (settings.scope.size() == 2) {
    for (const std::string& name : settings.scope) {
      MSP_RETURN_IF_ERROR(CheckScopeName(name, settings.level));
    }
    state->has_scope = true;
    state->scope_begin = settings.scope[0];
    state->scope_end = settings.scope[1];
  }
  const bool has_apis = settings.level == Level::kL1 || settings.level == Level::kMix;
  if (has_apis && !state->Filtered()) {
    state->risk_level = settings.risk_level;
  }
  state->task = settings.task;
  state->module_windows = settings.level == Level::kMix && !settings.list.empty();
  state->extra_info = settings.extra_info;
  state->data_mode = settings.data_mode;
  return Filters(std::move(state));
}

Wanted Filters::Enter(std::string_view name) {
  const dump::EntryName parsed = dump::ParseEntryName(name);
  if (state_->has_scope && name == state_->scope_begin) {
    state_->scope_open = true;
  }
  if (state_->module_windows && parsed.is_module && AnyMatches(state_->list, name)) {
    state_->open_modules.emplace_back(name);
  }
  return state_->Answer(name, parsed);
}

Wanted Filters::Leave(std::string_view name) {
  // A call that had entered before anybody listened opens its window at its end.
  if (state_->has_scope && name == state_->scope_begin) {
    state_->scope_open = true;
  }
  const Wanted wanted = state_->Answer(name, dump::ParseEntryName(name));
  if (state_->has_scope && name == state_->scope_end) {
    state_->scope_open = false;
  }
  if (const auto open = std::find(state_->open_modules.begin(), state_->open_modules.end(), name);
      open != state_->open_modules.end()) {
    state_->open_modules.erase(open);
  }
  return wanted;
}

bool Filters::WantsParametersGrad(std::string_view module) {
  if (state_->task == Task::kStructure || !state_->data_mode.backward) {
    return false;
  }
  if (!state_->Filtered() || state_->backward_modules.contains(std::string(module))) {
    return true;
  }
  // Gradients belong to the backward pass: a scope that was open in the forward pass says nothing
  // about them.
  return !state_->has_scope && state_->Selects(module);
}

bool Filters::SavesTensors(std::string_view name) const {
  return state_->task == Task::kTensor || state_->task == Task::kOverflowCheck ||
         ((state_->task == Task::kStatistics || state_->task == Task::kNanCheck) &&
          AnyMatches(state_->tensor_list, name));
}

bool Filters::has_windows() const { return state_->Filtered(); }

void Filters::NextStep() {
  // A module that raised never left.
  state_->open_modules.clear();
  state_->backward_modules.clear();
}

}  // namespace msprobe::capture
