// Loops: as many rounds as bash makes; where that cannot be known, one or none.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_patterns.h"
#include "src/analysis/config_check/shell_run.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
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
  // Which files there are, only a shell can tell.
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

}  // namespace msprobe::analysis::config_check::internal
