// Commands with their words: declarations, functions, other scripts, and the launch of a training.
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_patterns.h"
#include "src/analysis/config_check/shell_run.h"
#include "src/base/strings.h"
#include "src/json/config.h"

namespace msprobe::analysis::config_check::internal {
namespace {

// Toolkits whose scripts set paths and nothing that trains.
constexpr std::array<std::string_view, 14> kToolkitScripts = {
    "set_env.sh",    "setenv.bash", "setenv.sh",  "activate",     ".bashrc",
    ".bash_profile", "profile",     ".profile",   "conda.sh",     "setvars.sh",
    "vars.sh",       "env_vars.sh", "modules.sh", "ascend_env.sh"};

std::string_view BaseNameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Status ShellRun::RunDeclaration(const ShellNode& node) {
  const std::string_view name = node.words[0].Plain();
  MSP_ASSIGN_OR_RETURN(std::vector<ShellField> fields,
                       Expand({node.words.begin() + 1, node.words.end()}));
  std::string options;
  std::vector<std::string> names;
  for (const ShellField& field : fields) {
    if (field.text.starts_with('-') || (field.text.starts_with('+') && field.text.size() > 1)) {
      options += field.text.starts_with('-') ? field.text.substr(1) : std::string();
    } else if (HasUnknown(field.text)) {
      WarnAt(node.line, fmt::format("what {} sets is not known: {}", name, field.text));
    } else {
      names.push_back(field.text);
    }
  }
  const auto has = [&options](char letter) { return options.find(letter) != std::string::npos; };
  const bool local = !locals_.empty() && name != "export" && name != "readonly" && !has('g');
  const auto declare = [&](const std::string& variable_name) {
    if (local) {
      const auto old = variables_.find(variable_name);
      locals_.back().emplace_back(variable_name, old == variables_.end() ? nullptr : old->second);
      if (old != variables_.end()) {
        const bool exported = old->second->exported;
        old->second = std::make_shared<Variable>();
        old->second->exported = exported;
      }
    }
    Variable& variable = Own(variable_name);
    if (has('A') || has('a')) {
      variable.is_array = true;
      variable.has_keys = has('A');
    }
    variable.is_integer = variable.is_integer || (has('i') && name != "export");
  };
  const bool exports = (name == "export" && !has('n')) || (has('x') && name != "readonly");
  for (const ShellAssignment& assignment : node.assignments) {
    // The value first: local A=$A means the A outside.
    if (local && !assignment.is_array) {
      MSP_ASSIGN_OR_RETURN(std::string value, Text(assignment.words.at(0)));
      declare(assignment.name);
      if (Own(assignment.name).is_integer) {
        MSP_RETURN_IF_ERROR(Assign(assignment));
      } else {
        SetText(assignment.name, std::move(value), node.line);
      }
    } else {
      declare(assignment.name);
      MSP_RETURN_IF_ERROR(Assign(assignment));
    }
    Variable& variable = Own(assignment.name);
    variable.exported = exports || variable.exported;
  }
  for (const std::string& text : names) {
    const size_t sign = text.find('=');
    const std::string variable_name = text.substr(0, sign);
    if (!IsVariableName(variable_name)) {
      continue;
    }
    if (sign == std::string::npos && exports) {
      // Exported as it is; where the script does not set it, it stays what it is outside.
      const auto known = variables_.find(variable_name);
      if (known != variables_.end()) {
        Own(variable_name).exported = true;
      }
      continue;
    }
    if (sign == std::string::npos && name == "export" && has('n')) {
      Own(variable_name).exported = false;
      continue;
    }
    declare(variable_name);
    if (sign != std::string::npos) {
      SetText(variable_name, text.substr(sign + 1), node.line);
    }
    Variable& variable = Own(variable_name);
    variable.exported = exports || variable.exported;
  }
  Done(0);
  return {};
}

Status ShellRun::Call(const ShellNode& body, std::vector<std::string> arguments) {
  std::vector<std::string> outer = std::exchange(arguments_, std::move(arguments));
  const bool outer_known = std::exchange(arguments_known_, true);
  locals_.emplace_back();
  const Status status = RunNode(body);
  for (auto& [name, variable] : locals_.back()) {
    if (variable == nullptr) {
      variables_.erase(name);
    } else {
      variables_[name] = std::move(variable);
    }
  }
  locals_.pop_back();
  arguments_ = std::move(outer);
  arguments_known_ = outer_known;
  if (flow_ == Flow::kReturn) {
    flow_ = Flow::kNext;
  }
  return status;
}

Status ShellRun::RunText(const std::string& text, int line) {
  if (nesting_ + 5 >= kDeepestCalls) {
    WarnAt(line, "commands inside of too many others are left out");
    return {};
  }
  MSP_RETURN_IF_ERROR(CountBytes(text.size()));
  Result<ShellScript> script = ParseShell(text, nesting_ / 4);
  if (!script.ok()) {
    WarnAt(line, fmt::format("the command in it cannot be read: {}", script.status().message()));
    return {};
  }
  scripts_.push_back(std::make_unique<ShellScript>(*std::move(script)));
  return RunList(scripts_.back()->commands);
}

Status ShellRun::RunScript(std::string_view name, std::vector<std::string> arguments, bool sourced,
                           int line) {
  const std::string* text = HasUnknown(BaseNameOf(name)) ? nullptr : lookup_(BaseNameOf(name));
  if (text == nullptr) {
    if (!sourced) {
      WarnAt(line, fmt::format("{} is not read: give it with this script", name));
      return {};
    }
    if (base::IsOneOf(BaseNameOf(name), kToolkitScripts)) {
      return {};
    }
    WarnAt(line, fmt::format("{} is not read, it may change what stands in front of it: give it "
                             "with this script",
                             name));
    if (!variables_.empty() &&
        DecideAmong(fmt::format("line {} {}", line, Spelled(name)), 2) == 1) {
      std::vector<std::string> names;
      for (const auto& [variable, value] : variables_) {
        names.push_back(variable);
      }
      for (const std::string& variable : names) {
        ForgetName(variable);
      }
    }
    return {};
  }
  if (std::find(read_scripts_.begin(), read_scripts_.end(), BaseNameOf(name)) ==
      read_scripts_.end()) {
    read_scripts_.emplace_back(BaseNameOf(name));
  }
  if (sourced) {
    std::optional<std::vector<std::string>> outer;
    const bool outer_known = arguments_known_;
    if (!arguments.empty()) {
      outer = std::exchange(arguments_, std::move(arguments));
      arguments_known_ = true;
    }
    const Status status = RunText(*text, line);
    if (outer) {
      arguments_ = *std::move(outer);
      arguments_known_ = outer_known;
    }
    if (flow_ == Flow::kReturn) {
      flow_ = Flow::kNext;
    }
    return status;
  }
  // A shell of its own: it gets what is exported.
  State state = Save();
  for (auto place = variables_.begin(); place != variables_.end();) {
    place = place->second->exported ? std::next(place) : variables_.erase(place);
  }
  arguments_ = std::move(arguments);
  arguments_known_ = true;
  ++subshells_;
  const Status status = RunText(*text, line);
  --subshells_;
  Restore(std::move(state));
  flow_ = Flow::kNext;
  return status;
}

std::map<std::string, ShellSetting> ShellRun::Environment() const {
  std::map<std::string, ShellSetting> environment;
  for (const auto& [name, variable] : variables_) {
    if (variable->exported && variable->is_set && !variable->is_array) {
      environment[name] = {Resolve(variable->text), variable->line};
    }
  }
  return environment;
}

void ShellRun::AddLaunch(const Launch& launch, std::vector<ShellField>& fields, int line) {
  ShellLaunch& found = launches_.emplace_back();
  found.kind = launch.kind;
  found.line = line;
  found.environment = Environment();
  work_.expanded_bytes += found.environment.size() * 16;  // the limit is looked at with the next
  for (const auto& [name, value] : command_environment_) {
    found.environment[name] = {value, line};
  }
  // env NAME=value, mpirun -x NAME=value, srun --export=ALL,NAME=value, docker run -e NAME=value.
  const auto take = [&](std::string_view text) {
    const size_t sign = text.find('=');
    if (sign != std::string_view::npos && IsVariableName(text.substr(0, sign))) {
      found.environment[std::string(text.substr(0, sign))] = {std::string(text.substr(sign + 1)),
                                                              line};
    }
  };
  for (size_t i = 0; i < launch.program; ++i) {
    std::string_view text = fields[i].text;
    constexpr std::string_view kRuntime = "--runtime-env-json";
    if (text.starts_with("--export=")) {
      for (const std::string_view part : base::Split(text.substr(9), ',')) {
        take(part);
      }
    } else if (text.starts_with("--env=")) {
      take(text.substr(6));
    } else if (text.starts_with(kRuntime)) {
      std::string json(text == kRuntime && i + 1 < launch.program
                           ? fields[i + 1].text
                           : std::string(text.substr(std::min(text.size(), kRuntime.size() + 1))));
      // Marks are no JSON.
      json = base::ReplaceAll(base::ReplaceAll(json, "\x01", "\\u0001"), "\x02", "\\u0002");
      const Result<json::Config> config = json::ParseJsonData(json, std::string(kRuntime));
      const json::ConfigValue* variables = config.ok() ? (*config).root.Find("env_vars") : nullptr;
      if (variables != nullptr) {
        for (const auto& [name, value] : variables->members) {
          if (value.kind == json::ConfigKind::kText) {
            found.environment[name] = {Resolve(value.text), line};
          }
        }
      }
    } else {
      take(text);
    }
  }
  const auto begin = fields.begin();
  for (size_t i = launch.program; i < std::min(launch.arguments, fields.size()); ++i) {
    found.program += Spelled(fields[i].text) + " ";
  }
  found.arguments.assign(
      std::make_move_iterator(begin + static_cast<std::ptrdiff_t>(launch.arguments)),
      std::make_move_iterator(fields.end()));
  for (ShellField& field : found.arguments) {
    field.text = Resolve(std::move(field.text));
    if (field.may_vanish) {
      const std::string name = base::AsciiLower(Spelled(field.text));
      field.holds_options = base::ContainsAny(name, {"arg", "opt", "flag", "extra", "param", "@"});
    }
  }
  const size_t end = FindProgramEnd(found.kind, found.arguments);
  if (end > 0 && end <= found.arguments.size()) {
    found.program += Spelled(found.arguments[end - 1].text);
  }
}

Status ShellRun::RunExternal(const ShellNode& node, std::vector<ShellField>& fields) {
  // A backslash was forgotten, or a comment stands between the lines of a command.
  if (after_launch_ && IsOption(fields.front().text)) {
    WarnAt(node.line,
           "begins with an option; read as part of the launch above, although a shell ends that "
           "command before it (is a backslash missing?)");
    std::vector<ShellField>& arguments = launches_.back().arguments;
    arguments.insert(arguments.end(), std::make_move_iterator(fields.begin()),
                     std::make_move_iterator(fields.end()));
    Done(0);
    return {};
  }
  after_launch_ = false;
  std::string key;
  for (const ShellField& field : fields) {
    key += field.text + " ";
    if (key.size() > 1000) {
      break;
    }
  }
  if (const std::optional<Launch> launch = FindLaunch(fields)) {
    // What a script prints into $(...) is a question, not the training.
    if (launch->kind == LauncherKind::kPython && substitutions_ > 0) {
      if (output_ != nullptr) {
        output_->unknown = true;
      }
      outcome_ = {.code = std::nullopt, .key = key};
      return {};
    }
    AddLaunch(*launch, fields, node.line);
    after_launch_ = true;
    Done(0);
    return {};
  }
  if (output_ != nullptr) {
    output_->unknown = true;
  }
  if (const std::optional<NestedScript> nested = FindNestedScript(fields)) {
    std::vector<std::string> arguments;
    for (size_t i = nested->arguments; i < fields.size(); ++i) {
      arguments.push_back(Resolve(fields[i].text));
    }
    if (nested->is_file) {
      MSP_RETURN_IF_ERROR(RunScript(nested->text, std::move(arguments), false, node.line));
    } else {
      State state = Save();
      for (auto place = variables_.begin(); place != variables_.end();) {
        place = place->second->exported ? std::next(place) : variables_.erase(place);
      }
      for (const auto& [name, value] : command_environment_) {
        SetText(name, value, node.line);
        Own(name).exported = true;
      }
      arguments_ = std::move(arguments);
      if (!arguments_.empty()) {
        arguments_.erase(arguments_.begin());  // its name
      }
      arguments_known_ = true;
      ++subshells_;
      const Status status = RunText(nested->text, node.line);
      --subshells_;
      Restore(std::move(state));
      flow_ = Flow::kNext;
      MSP_RETURN_IF_ERROR(status);
    }
    Done(0);
    return {};
  }
  const std::string_view name = BaseNameOf(fields.front().text);
  if (fields.front().text.find('/') != std::string::npos && name.ends_with(".sh")) {
    std::vector<std::string> arguments;
    for (size_t i = 1; i < fields.size(); ++i) {
      arguments.push_back(Resolve(fields[i].text));
    }
    MSP_RETURN_IF_ERROR(RunScript(fields.front().text, std::move(arguments), false, node.line));
    Done(0);
    return {};
  }
  outcome_ = {.code = std::nullopt, .key = std::move(key)};
  return {};
}

Status ShellRun::RunCommand(const ShellNode& node) {
  if (node.words.empty()) {
    Done(0);
    for (const ShellAssignment& assignment : node.assignments) {
      MSP_RETURN_IF_ERROR(Assign(assignment));
    }
    after_launch_ = false;
    return {};
  }
  if (IsDeclaration(node.words.front().Plain())) {
    after_launch_ = false;
    return RunDeclaration(node);
  }
  MSP_ASSIGN_OR_RETURN(std::vector<ShellField> fields, Expand(node.words));
  if (fields.empty()) {
    for (const ShellAssignment& assignment : node.assignments) {
      MSP_RETURN_IF_ERROR(Assign(assignment));
    }
    return {};
  }
  // In front of a command they hold for its time only.
  std::vector<std::pair<std::string, std::shared_ptr<Variable>>> before;
  std::vector<std::pair<std::string, std::string>> outer = command_environment_;
  for (const ShellAssignment& assignment : node.assignments) {
    const auto known = variables_.find(assignment.name);
    before.emplace_back(assignment.name, known == variables_.end() ? nullptr : known->second);
    MSP_RETURN_IF_ERROR(Assign(assignment));
    Variable& variable = Own(assignment.name);
    variable.exported = true;
    command_environment_.emplace_back(assignment.name, Resolve(variable.text));
  }
  const Status status = RunFields(node, std::move(fields));
  command_environment_ = std::move(outer);
  for (auto place = before.rbegin(); place != before.rend(); ++place) {
    if (place->second == nullptr) {
      variables_.erase(place->first);
    } else {
      variables_[place->first] = std::move(place->second);
    }
  }
  return status;
}

Status ShellRun::RunFields(const ShellNode& node, std::vector<ShellField> fields) {
  while (true) {
    const std::string name = fields.front().text;
    if (const auto function = functions_.find(name); function != functions_.end()) {
      after_launch_ = false;
      std::vector<std::string> arguments;
      for (size_t i = 1; i < fields.size(); ++i) {
        arguments.push_back(Resolve(fields[i].text));
      }
      return Call(*function->second, std::move(arguments));
    }
    // They change nothing about the command behind them.
    const bool passes = (name == "exec" || name == "builtin" || name == "command" ||
                         name == "nohup" || name == "time") &&
                        fields.size() > 1 && !fields[1].text.starts_with('-');
    if (!passes) {
      break;
    }
    fields.erase(fields.begin());
  }
  MSP_ASSIGN_OR_RETURN(const bool done, RunBuiltin(node, fields));
  return done ? Status() : RunExternal(node, fields);
}

}  // namespace msprobe::analysis::config_check::internal
