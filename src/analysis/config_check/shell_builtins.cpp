// The commands that a shell has by itself.
#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_patterns.h"
#include "src/analysis/config_check/shell_run.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

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

}  // namespace msprobe::analysis::config_check::internal
