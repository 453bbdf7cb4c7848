#include "src/analysis/config_check/launch_script.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/launch_command.h"
#include "src/analysis/config_check/shell_lexer.h"
#include "src/analysis/config_check/shell_variables.h"

namespace msprobe::analysis::config_check::internal {
namespace {

constexpr int kNestedScripts = 4;  // bash -c "bash -c ..."

struct FoundLaunch {
  LauncherKind kind = LauncherKind::kPython;
  std::vector<ShellField> arguments;
};

// Goes through the commands of a script in the order of their text.
class Walker {
 public:
  Status Walk(const ShellScript& script, int depth);
  std::vector<FoundLaunch>& launches() { return launches_; }
  std::vector<std::string>& warnings() { return warnings_; }

 private:
  Status Command(const ShellCommand& command, int depth);

  ShellVariables variables_;
  std::vector<FoundLaunch> launches_;
  std::vector<std::string> warnings_;
  bool after_launch_ = false;  // the command before this one was a launch
};

Status Walker::Command(const ShellCommand& command, int depth) {
  // In front of a command they hold for its time only; a script that says LR=1 there and means
  // another LR elsewhere is not worth the difference.
  for (const ShellAssignment& assignment : command.assignments) {
    MSP_RETURN_IF_ERROR(variables_.Assign(assignment));
  }
  if (command.words.empty() || IsDeclaration(command.words.front().Plain())) {
    after_launch_ = false;
    return {};
  }
  MSP_ASSIGN_OR_RETURN(std::vector<ShellField> fields, variables_.Expand(command.words));
  if (fields.empty()) {
    return {};
  }
  // A backslash was forgotten, or a comment stands between the lines of a command.
  if (after_launch_ && IsOption(fields.front().text)) {
    warnings_.push_back(
        fmt::format("line {}: begins with an option; read as part of the launch above, although a "
                    "shell ends that command before it (is a backslash missing?)",
                    command.line));
    std::vector<ShellField>& arguments = launches_.back().arguments;
    arguments.insert(arguments.end(), std::make_move_iterator(fields.begin()),
                     std::make_move_iterator(fields.end()));
    return {};
  }
  after_launch_ = false;
  if (const std::optional<Launch> launch = FindLaunch(fields)) {
    FoundLaunch& found = launches_.emplace_back();
    found.kind = launch->kind;
    found.arguments.assign(
        std::make_move_iterator(fields.begin() + static_cast<std::ptrdiff_t>(launch->arguments)),
        std::make_move_iterator(fields.end()));
    after_launch_ = true;
    return {};
  }
  const std::optional<std::string> nested = FindNestedScript(fields);
  if (nested && depth < kNestedScripts) {
    Result<ShellScript> script = LexShell(*nested);
    if (!script.ok()) {
      warnings_.push_back(fmt::format("line {}: the command in it cannot be read: {}", command.line,
                                      script.status().message()));
      return {};
    }
    return Walk(*script, depth + 1);
  }
  return {};
}

Status Walker::Walk(const ShellScript& script, int depth) {
  for (const ShellCommand& command : script.commands) {
    MSP_RETURN_IF_ERROR(Command(command, depth));
  }
  return {};
}

// What the Python tool finds in a plain script and a shell would not: it reads on behind the end of
// the launch, up to the first |. Where it went on, a flag at the end has taken the word behind it.
void AddWhatThePythonToolFinds(std::string_view text, Parameters& parameters) {
  const Parameters theirs = ReadLaunchScriptAsPythonTool(text);
  std::vector<std::pair<std::string, json::ConfigValue>> missing;
  for (const auto& [name, value] : theirs.object().members) {
    if (parameters.Find(name) == nullptr) {
      missing.emplace_back(name, value);
    }
  }
  if (missing.empty()) {
    return;
  }
  for (const auto& [name, value] : theirs.object().members) {
    const json::ConfigValue* ours = parameters.Find(name);
    const bool takes_text = value.kind == json::ConfigKind::kText && !value.text.starts_with('-');
    if (ours != nullptr && ours->kind == json::ConfigKind::kBool && takes_text) {
      parameters.Set(name, value);
    }
  }
  for (auto& [name, value] : missing) {
    // An option that was taken for the value of another one.
    const bool is_option = value.kind == json::ConfigKind::kText && value.text.starts_with("--");
    parameters.Set(name, is_option ? TrueParameter() : std::move(value));
  }
}

}  // namespace

Result<LaunchScript> ReadLaunchScript(std::string_view text) {
  MSP_ASSIGN_OR_RETURN(ShellScript script, LexShell(text));
  Walker walker;
  MSP_RETURN_IF_ERROR(walker.Walk(script, 0));
  LaunchScript result;
  result.warnings = std::move(script.warnings);
  result.warnings.insert(result.warnings.end(), std::make_move_iterator(walker.warnings().begin()),
                         std::make_move_iterator(walker.warnings().end()));
  // Plain Python commands in front of the launch prepare something; without a launcher they are
  // the training.
  auto first = walker.launches().begin();
  const auto launcher = std::find_if(
      walker.launches().begin(), walker.launches().end(),
      [](const FoundLaunch& found) { return found.kind == LauncherKind::kDistributed; });
  if (launcher != walker.launches().end()) {
    first = launcher;
  }
  for (; first != walker.launches().end(); ++first) {
    ReadLaunchArguments(first->kind, first->arguments, result.parameters);
  }
  if (script.is_plain) {
    AddWhatThePythonToolFinds(text, result.parameters);
  }
  return result;
}

}  // namespace msprobe::analysis::config_check::internal
