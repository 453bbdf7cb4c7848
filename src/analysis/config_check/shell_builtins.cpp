#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_patterns.h"
#include "src/analysis/config_check/shell_run.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/json/config.h"

namespace msprobe::analysis::config_check::internal {
namespace {

// Only one unknown, nothing else.
bool IsOneUnknown(std::string_view text) {
  return text.starts_with('\x01') && text.find('\x02') + 1 == text.size();
}

}  // namespace

Result<bool> ShellRun::RunBuiltin(const ShellNode& node, const std::vector<ShellField>& fields) {
  std::vector<std::string> words;
  words.reserve(fields.size());
  for (const ShellField& field : fields) {
    words.push_back(Resolve(field.text));
  }
  const std::string name = words[0];
  const std::vector<std::string> arguments(words.begin() + 1, words.end());
  const bool was_after_launch = std::exchange(after_launch_, false);
  if (name == ":" || name == "true" || name == "wait" || name == "trap" || name == "cd" ||
      name == "sleep" || name == "mkdir" || name == "ulimit" || name == "sync") {
    Done(0);
  } else if (name == "false") {
    Done(1);
  } else if (name == "[" || name == "test") {
    std::vector<std::string> condition = arguments;
    if (name == "[" && !condition.empty() && condition.back() == "]") {
      condition.pop_back();
    }
    Test(condition);
  } else if (name == "echo") {
    Done(0);
    Echo(arguments);
  } else if (name == "printf") {
    Printf(arguments, node.line);
  } else if (name == "read") {
    MSP_RETURN_IF_ERROR(Read(arguments, node.line));
  } else if (name == "mapfile" || name == "readarray") {
    ReadLines(arguments);
  } else if (name == "exit" || name == "return") {
    flow_ = name == "exit" ? Flow::kExit : Flow::kReturn;
    if (!arguments.empty()) {
      outcome_ = {};
      outcome_.code = base::ParseInt(arguments[0]).value_or(1);
    }
  } else if (name == "break" || name == "continue") {
    flow_ = name == "break" ? Flow::kBreak : Flow::kContinue;
    flow_levels_ = arguments.empty()
                       ? 1
                       : static_cast<int>(std::clamp<int64_t>(
                             base::ParseInt(arguments[0]).value_or(1), 1, kDeepestLoops));
    Done(0);
  } else if (name == "shift") {
    const std::optional<int64_t> count =
        arguments.empty() ? std::optional<int64_t>(1) : base::ParseInt(arguments[0]);
    const auto places = static_cast<size_t>(std::clamp<int64_t>(count.value_or(1), 0, 1'000'000));
    if (!arguments_known_) {
      shifted_ += places;
      Done(0);
    } else if (places <= arguments_.size()) {
      MSP_RETURN_IF_ERROR(CountBytes(arguments_.size()));
      arguments_.erase(arguments_.begin(),
                       arguments_.begin() + static_cast<std::ptrdiff_t>(places));
      Done(0);
    } else {
      Done(1);
    }
  } else if (name == "set") {
    Done(0);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string& word = arguments[i];
      if (word == "-o" || word == "+o") {
        exports_all_ = i + 1 < arguments.size() && arguments[i + 1] == "allexport" ? word == "-o"
                                                                                   : exports_all_;
        ++i;
      } else if (word == "--" || (!word.starts_with('-') && !word.starts_with('+'))) {
        arguments_.assign(arguments.begin() + static_cast<std::ptrdiff_t>(word == "--" ? i + 1 : i),
                          arguments.end());
        arguments_known_ = true;
        break;
      } else if (word.find('a') != std::string::npos) {
        exports_all_ = word[0] == '-';
      }
    }
  } else if (name == "unset") {
    Done(0);
    for (const std::string& word : arguments) {
      if (word.starts_with('-') || HasUnknown(word)) {
        continue;
      }
      const size_t bracket = word.find('[');
      if (bracket != std::string::npos) {
        ForgetName(word.substr(0, bracket));
      } else if (functions_.erase(word) == 0 || variables_.count(word) > 0) {
        variables_[word] = std::make_shared<Variable>();
      }
    }
  } else if (name == "let") {
    for (const std::string& word : arguments) {
      MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> value, Arithmetic(word));
      outcome_ = {};
      outcome_.code = value && *value != 0 ? 0 : 1;
    }
  } else if (name == "eval") {
    const std::string text = base::Join(arguments, " ");
    if (text.find('\x01') != std::string::npos && IsOneUnknown(base::Trim(text))) {
      const std::string spelled = Spelled(text);
      const bool harmless = base::ContainsAny(
          spelled, {"conda", "ssh-agent", "pyenv", "brew", "module", "dircolors", "direnv"});
      if (!harmless) {
        WarnAt(node.line, fmt::format("eval of {}: what it does is not known", text));
      }
      Done(0);
    } else {
      // The unknown stays what it is: spelled, it is found again.
      MSP_RETURN_IF_ERROR(RunText(Spelled(text), node.line));
    }
  } else if (name == "source" || name == ".") {
    Done(0);
    if (!arguments.empty()) {
      MSP_RETURN_IF_ERROR(
          RunScript(arguments[0], {arguments.begin() + 1, arguments.end()}, true, node.line));
    }
  } else if (name == "getopts") {
    outcome_ = {
        .code = arguments_known_ && arguments_.empty() ? std::optional<int>(1) : std::nullopt,
        .key = "getopts $#"};
  } else if (name == "shopt" || name == "alias" || name == "exec") {
    Done(0);
    if (name == "exec" && arguments.size() > 1) {
      after_launch_ = was_after_launch;
      return false;
    }
  } else if (Filter(words)) {
    Done(0);
  } else {
    after_launch_ = was_after_launch;
    return false;
  }
  return true;
}

namespace {

constexpr size_t kMostRounds = 10'000;  // of a loop

}  // namespace

bool ShellRun::LoopEnds() {
  if (flow_ == Flow::kNext) {
    return false;
  }
  if (flow_ == Flow::kBreak || flow_ == Flow::kContinue) {
    const bool here = --flow_levels_ <= 0;
    const bool goes_on = here && flow_ == Flow::kContinue;
    if (here) {
      flow_ = Flow::kNext;
    }
    return !goes_on;
  }
  return true;
}

// Once or not at all; what it sets is not known behind it.
Status ShellRun::RunUnknownLoop(const ShellNode& node, const ShellList& body,
                                const std::string& key) {
  Done(0);
  if (!HasEffect(body)) {
    return {};
  }
  if (DecideAmong(key, 2) == 0) {
    return {};
  }
  Forget(node);
  MSP_RETURN_IF_ERROR(RunList(body));
  static_cast<void>(LoopEnds());
  Forget(node);
  Done(0);
  return {};
}

Status ShellRun::RunLoop(const ShellNode& node) {
  if (node.children.size() < 2) {
    return {};
  }
  const bool until = node.text == "until";
  const ShellList& body = node.children[1].children;
  for (size_t round = 0;; ++round) {
    MSP_RETURN_IF_ERROR(RunNode(node.children[0]));
    if (flow_ != Flow::kNext) {
      return {};
    }
    const std::string key = outcome_.key;
    if (!outcome_.code || round >= kMostRounds) {
      const bool about_arguments =
          Spelled(key).find("$#") != std::string::npos ||
          (!arguments_known_ && Spelled(key).find("$1") != std::string::npos);
      if (about_arguments && round < kMostRounds) {
        WarnAt(node.line,
               "the loop reads the arguments of the script, which are not known: as if "
               "there were none");
        Done(0);
        return {};
      }
      if (round >= kMostRounds) {
        WarnAt(node.line, fmt::format("the loop has more than {} rounds: what it sets is not known",
                                      kMostRounds));
        Forget(node);
        Done(0);
        return {};
      }
      return RunUnknownLoop(node, body, fmt::format("line {} {}", node.line, key));
    }
    if ((*outcome_.code == 0) == until) {
      Done(0);
      return {};
    }
    MSP_RETURN_IF_ERROR(RunList(body));
    if (LoopEnds()) {
      return {};
    }
  }
}

Status ShellRun::RunFor(const ShellNode& node) {
  const ShellList empty;
  const ShellList& body = node.children.empty() ? empty : node.children[0].children;
  std::vector<ShellField> fields;
  if (node.has_words) {
    MSP_ASSIGN_OR_RETURN(fields, Expand(node.words));
  } else {
    for (const std::string& argument : arguments_) {
      fields.push_back({argument, false, false, node.line});
    }
  }
  const auto names_arguments = [](const ShellWord& word) {
    return std::any_of(word.segments.begin(), word.segments.end(), [](const ShellSegment& segment) {
      return segment.name == "@" || segment.name == "*";
    });
  };
  const bool about_arguments =
      !node.has_words || std::any_of(node.words.begin(), node.words.end(), names_arguments);
  if (about_arguments && !arguments_known_ && HasEffect(body)) {
    WarnAt(
        node.line,
        "the loop reads the arguments of the script, which are not known: as if there were none");
  }
  // Only a shell knows which files exist.
  const auto is_open = [](const ShellField& field) {
    return field.may_vanish || field.text.find_first_of("*?") != std::string::npos;
  };
  if (const auto open = std::find_if(fields.begin(), fields.end(), is_open); open != fields.end()) {
    return RunUnknownLoop(node, body,
                          fmt::format("line {} for {}", node.line, Spelled(open->text)));
  }
  Done(0);
  for (ShellField& field : fields) {
    SetText(node.text, std::move(field.text), node.line);
    MSP_RETURN_IF_ERROR(RunList(body));
    if (LoopEnds()) {
      break;
    }
  }
  return {};
}

Status ShellRun::RunCountingFor(const ShellNode& node) {
  const ShellList empty;
  const ShellList& body = node.children.empty() ? empty : node.children[0].children;
  const std::vector<std::string_view> parts = base::Split(node.text, ';');
  if (parts.size() != 3) {
    return RunUnknownLoop(node, body, fmt::format("line {} for", node.line));
  }
  MSP_RETURN_IF_ERROR(Arithmetic(parts[0]).status());
  for (size_t round = 0;; ++round) {
    std::optional<int64_t> condition = 1;
    if (!base::Trim(parts[1]).empty()) {
      MSP_ASSIGN_OR_RETURN(condition, Arithmetic(parts[1]));
    }
    if (!condition || round >= kMostRounds) {
      return RunUnknownLoop(node, body, fmt::format("line {} for {}", node.line, parts[1]));
    }
    if (*condition == 0) {
      Done(0);
      return {};
    }
    MSP_RETURN_IF_ERROR(RunList(body));
    if (LoopEnds()) {
      return {};
    }
    MSP_RETURN_IF_ERROR(Arithmetic(parts[2]).status());
  }
}

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
      // Marks are not JSON.
      json = base::ReplaceAll(base::ReplaceAll(json, "\x01", "\\u0001"), "\x02", "\\u0002");
      const Result<json::Json> environment = json::ParseJsonData(json, kRuntime);
      const json::Json* variables =
          environment.ok() ? json::Find(*environment, "env_vars") : nullptr;
      if (variables != nullptr && variables->is_object()) {
        for (const auto& [name, value] : variables->items()) {
          if (value.is_string()) {
            found.environment[name] = {Resolve(json::TextOf(value)), line};
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
