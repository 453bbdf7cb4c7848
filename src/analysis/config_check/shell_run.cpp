// Commands, branches, loops and functions: what bash would go through.
#include "src/analysis/config_check/shell_run.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_patterns.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

constexpr size_t kMostCommands = 1'000'000;  // of all runs of a script

// Programs and builtins that set nothing and start no training.
constexpr std::array<std::string_view, 52> kHarmless = {
    "echo",       "printf", "mkdir",  "rm",         "cp",      "mv",       "ls",
    "cat",        "sleep",  "ln",     "touch",      "chmod",   "chown",    "cd",
    "pushd",      "popd",   "pip",    "pip3",       "git",     "wget",     "curl",
    "tar",        "unzip",  "ulimit", "trap",       "wait",    "kill",     "pkill",
    "which",      "date",   "grep",   "nvidia-smi", "npu-smi", "hostname", "tee",
    "sed",        "awk",    "find",   "module",     "conda",   "killall",  "type",
    "pwd",        "df",     "free",   "apt",        "apt-get", "yum",      "huggingface-cli",
    "modelscope", "true",   ":"};

}  // namespace

bool IsVariableName(std::string_view name) {
  return !name.empty() && StartsName(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
    return StartsName(c) || base::IsDigit(c);
  });
}

void ShellRun::WarnAt(int line, const std::string& message) {
  std::string warning = fmt::format("line {}: {}", line, Spelled(message));
  if (known_warnings_.insert(warning).second) {
    warnings_.push_back(std::move(warning));
  }
}

int ShellRun::DecideAmong(const std::string& key, int choices) {
  const auto [place, is_new] = decided_.emplace(key, 0);
  if (is_new) {
    const size_t number = choices_.size();
    choices_.push_back(choices);
    if (decisions_.size() <= number) {
      decisions_.push_back(0);
    }
    place->second = decisions_[number];
  }
  return place->second;
}

bool ShellRun::Decide(const Outcome& outcome) {
  const bool truth = DecideAmong(Spelled(outcome.key), 2) == 0;
  if (outcome.unknown >= 0) {
    ShellUnknown& unknown = unknowns_[static_cast<size_t>(outcome.unknown)];
    if (outcome.is == Outcome::Is::kText && truth) {
      unknown.binding = outcome.text;
    } else if (outcome.is == Outcome::Is::kEmpty) {
      if (truth) {
        unknown.binding = std::string();
      } else {
        unknown.assumed_set = true;
      }
    }
  }
  if (outcome.key.find("$#") != std::string::npos ||
      Spelled(outcome.key).find("$#") != std::string::npos) {
    for (ShellUnknown& unknown : unknowns_) {
      unknown.assumed_set = unknown.assumed_set || unknown.kind == ShellUnknown::Kind::kArgument;
    }
  }
  return truth != outcome.inverted;
}

void ShellRun::Restore(State state) {
  variables_ = std::move(state.variables);
  arguments_ = std::move(state.arguments);
  arguments_known_ = state.arguments_known;
  shifted_ = state.shifted;
}

// True when nothing that a training or the answer depends on comes of it.
bool ShellRun::HasEffect(const ShellNode& node) {
  if (output_ != nullptr) {
    return true;  // what it prints is read
  }
  if (const auto known = effects_.find(&node); known != effects_.end()) {
    return known->second;
  }
  effects_[&node] = false;  // a function that calls itself
  bool effect = node.kind == ShellKind::kFunction || node.kind == ShellKind::kArithmetic ||
                node.kind == ShellKind::kCountingFor || !node.assignments.empty();
  if (node.kind == ShellKind::kCommand && !node.words.empty()) {
    const std::string name(node.words[0].Plain());
    const auto function = functions_.find(name);
    if (function != functions_.end()) {
      effect = effect || HasEffect(*function->second);
    } else {
      const bool prints_to_variable =
          name == "printf" && node.words.size() > 1 && node.words[1].Plain() == "-v";
      effect = effect || prints_to_variable || !base::IsOneOf(name, kHarmless);
    }
  }
  for (const ShellCaseItem& item : node.items) {
    effect = effect || HasEffect(item.body);
  }
  // Conditions count, too: they may be calls.
  if (node.kind != ShellKind::kIf && node.kind != ShellKind::kLoop) {
    effect = effect || HasEffect(node.children);
  } else {
    for (size_t i = 0; i < node.children.size(); ++i) {
      const bool is_condition = i % 2 == 0 && i + 1 < node.children.size();
      if (is_condition) {
        for (const ShellNode& child : node.children[i].children) {
          const bool test = child.kind == ShellKind::kCondition ||
                            (child.kind == ShellKind::kCommand && !child.words.empty() &&
                             child.assignments.empty() &&
                             (child.words[0].Plain() == "[" || child.words[0].Plain() == "test" ||
                              child.words[0].Plain() == "command"));
          effect = effect || (!test && HasEffect(child));
        }
      } else {
        effect = effect || HasEffect(node.children[i]);
      }
    }
  }
  effects_[&node] = effect;
  return effect;
}

bool ShellRun::HasEffect(const ShellList& list) {
  return std::any_of(list.begin(), list.end(),
                     [this](const ShellNode& node) { return HasEffect(node); });
}

// It ends the script, and does nothing else.
bool ShellRun::LeavesScript(const ShellNode& node) {
  if (subshells_ > 0 || output_ != nullptr) {
    return false;
  }
  if (node.kind == ShellKind::kCommand && !node.words.empty() && node.assignments.empty()) {
    const std::string name(node.words[0].Plain());
    const auto function = functions_.find(name);
    if (function != functions_.end() && ++nesting_ < kDeepestCalls) {
      const bool leaves = LeavesScript(*function->second);
      --nesting_;
      return leaves;
    }
    return name == "exit";
  }
  if (node.kind != ShellKind::kGroup || node.negated) {
    return false;
  }
  for (const ShellNode& child : node.children) {
    if (LeavesScript(child)) {
      return true;
    }
    if (HasEffect(child)) {
      return false;
    }
  }
  return false;
}

void ShellRun::ForgetName(const std::string& name) {
  if (!IsVariableName(name)) {
    return;
  }
  Variable& variable = Own(name);
  variable.is_set = true;
  const std::string unknown = UnknownText("$" + name, ShellUnknown::Kind::kOther);
  variable.text = unknown;
  if (variable.is_array) {
    variable.elements = {{"0", unknown}};
  }
}

void ShellRun::Forget(const ShellNode& node) {
  if (++nesting_ < kDeepestCalls) {
    for (const ShellAssignment& assignment : node.assignments) {
      ForgetName(assignment.name);
    }
    if (node.kind == ShellKind::kFor) {
      ForgetName(node.text);
    }
    if (node.kind == ShellKind::kCommand && !node.words.empty()) {
      const std::string name(node.words[0].Plain());
      if (name == "read" || name == "mapfile" || name == "readarray" || name == "getopts" ||
          name == "printf" || name == "let") {
        for (size_t i = 1; i < node.words.size(); ++i) {
          ForgetName(std::string(node.words[i].Plain()));
        }
      }
      const auto function = functions_.find(name);
      if (function != functions_.end()) {
        Forget(*function->second);
      }
    }
    // NAME=, NAME++ in arithmetic.
    if (node.kind == ShellKind::kArithmetic || node.kind == ShellKind::kCountingFor) {
      size_t begin = 0;
      for (size_t i = 0; i <= node.text.size(); ++i) {
        if (i == node.text.size() || !(StartsName(node.text[i]) || base::IsDigit(node.text[i]))) {
          const std::string name = node.text.substr(begin, i - begin);
          if (variables_.count(name) > 0) {
            ForgetName(name);
          }
          begin = i + 1;
        }
      }
    }
    for (const ShellNode& child : node.children) {
      Forget(child);
    }
    for (const ShellCaseItem& item : node.items) {
      for (const ShellNode& child : item.body) {
        Forget(child);
      }
    }
  }
  --nesting_;
}

Status ShellRun::RunList(const ShellList& list) {
  for (const ShellNode& node : list) {
    if (flow_ != Flow::kNext) {
      break;
    }
    MSP_RETURN_IF_ERROR(RunNode(node));
  }
  return {};
}

Status ShellRun::RunNode(const ShellNode& node) {
  if (++work_.commands > kMostCommands) {
    return BadFormatError(fmt::format("line {}: more than {} commands", node.line, kMostCommands));
  }
  if (nesting_ >= kDeepestCalls) {
    return BadFormatError(fmt::format("line {}: more than {} commands inside of each other",
                                      node.line, kDeepestCalls));
  }
  ++nesting_;
  // What stands behind < belongs to all that is in it.
  const std::shared_ptr<Input> outer = input_;
  const bool reads =
      std::any_of(node.redirections.begin(), node.redirections.end(), [](const auto& redirection) {
        return redirection->kind == ShellRedirection::Kind::kInput ||
               redirection->kind == ShellRedirection::Kind::kHere ||
               redirection->kind == ShellRedirection::Kind::kHereText;
      });
  // Output that goes to a file is not read here.
  const bool writes =
      std::any_of(node.redirections.begin(), node.redirections.end(), [](const auto& redirection) {
        return redirection->kind == ShellRedirection::Kind::kOutput && redirection->descriptor != 2;
      });
  Output* const output = output_;
  Output nowhere;
  Status status;
  if (reads) {
    status = [&]() -> Status {
      for (const auto& redirection : node.redirections) {
        using Kind = ShellRedirection::Kind;
        if (redirection->kind == Kind::kHere || redirection->kind == Kind::kHereText) {
          MSP_ASSIGN_OR_RETURN(std::string text, Text(redirection->word));
          input_ = std::make_shared<Input>(Input{std::move(text), 0, false});
          if (redirection->kind == Kind::kHereText) {
            input_->text += '\n';
          }
        } else if (redirection->kind == Kind::kInput) {
          const bool nothing = redirection->word.Plain() == "/dev/null";
          input_ = std::make_shared<Input>(Input{{}, 0, !nothing});
        }
      }
      return {};
    }();
  }
  if (writes && output_ != nullptr) {
    output_ = &nowhere;
  }
  if (status.ok()) {
    status = RunKind(node);
  }
  output_ = output;
  input_ = outer;
  if (node.negated && status.ok()) {
    if (outcome_.code) {
      outcome_.code = *outcome_.code == 0 ? 1 : 0;
    } else {
      outcome_.inverted = !outcome_.inverted;
    }
  }
  --nesting_;
  return status;
}

Status ShellRun::RunKind(const ShellNode& node) {
  switch (node.kind) {
    case ShellKind::kCommand:
      return RunCommand(node);
    case ShellKind::kPipeline:
      return RunPipeline(node);
    case ShellKind::kAndOr:
      return RunAndOr(node);
    case ShellKind::kIf:
      return RunIf(node);
    case ShellKind::kLoop:
      return RunLoop(node);
    case ShellKind::kFor:
      return RunFor(node);
    case ShellKind::kCountingFor:
      return RunCountingFor(node);
    case ShellKind::kCase:
      return RunCase(node);
    case ShellKind::kGroup:
      return RunList(node.children);
    case ShellKind::kSubshell:
      return node.children.empty() ? Status() : RunSubshell(node.children[0].children);
    case ShellKind::kFunction:
      if (!node.children.empty()) {
        functions_[node.text] = &node.children[0];
        effects_.clear();
      }
      Done(0);
      return {};
    case ShellKind::kCondition:
      return EvaluateCondition(node);
    case ShellKind::kArithmetic: {
      MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> value, Arithmetic(node.text));
      if (value) {
        Done(*value != 0 ? 0 : 1);
      } else {
        MSP_ASSIGN_OR_RETURN(const std::string text, OperandText(node.text));
        outcome_ = {.code = std::nullopt, .key = fmt::format("(({}))", text)};
      }
      return {};
    }
  }
  return {};
}

Status ShellRun::RunSubshell(const ShellList& list) {
  State state = Save();
  MSP_RETURN_IF_ERROR(CountBytes(variables_.size()));
  ++subshells_;
  const Status status = RunList(list);
  --subshells_;
  Restore(std::move(state));
  if (flow_ == Flow::kExit || flow_ == Flow::kReturn) {
    flow_ = Flow::kNext;
  }
  return status;
}

Status ShellRun::RunAndOr(const ShellNode& node) {
  MSP_RETURN_IF_ERROR(RunNode(node.children[0]));
  for (size_t i = 1; i < node.children.size() && flow_ == Flow::kNext; ++i) {
    const bool is_and = node.text[i - 1] == '&';
    const ShellNode& child = node.children[i];
    if (outcome_.code) {
      if ((*outcome_.code == 0) == is_and) {
        MSP_RETURN_IF_ERROR(RunNode(child));
      }
      continue;
    }
    if (LeavesScript(child)) {
      // Where it goes on, this is what has happened.
      Done(is_and ? 1 : 0);
      continue;
    }
    if (!HasEffect(child)) {
      outcome_.key += fmt::format(" {} line {}", is_and ? "&&" : "||", child.line);
      outcome_.unknown = -1;
      continue;
    }
    const bool success = Decide(outcome_);
    Done(success ? 0 : 1);
    if (success == is_and) {
      MSP_RETURN_IF_ERROR(RunNode(child));
    }
  }
  return {};
}

Status ShellRun::RunPipeline(const ShellNode& node) {
  const std::shared_ptr<Input> outer = input_;
  Output* const output = output_;
  Status status;
  for (size_t i = 0; i < node.children.size() && status.ok(); ++i) {
    Output piped;
    const bool last = i + 1 == node.children.size();
    output_ = last ? output : &piped;
    // A launch in front of "| tee log" is one like any other.
    const ShellNode& child = node.children[i];
    State state = Save();
    MSP_RETURN_IF_ERROR(CountBytes(variables_.size()));
    ++subshells_;
    status = RunNode(child);
    --subshells_;
    Restore(std::move(state));
    flow_ = Flow::kNext;
    if (!last) {
      input_ = std::make_shared<Input>(Input{std::move(piped.text), 0, piped.unknown});
    }
  }
  output_ = output;
  input_ = outer;
  return status;
}

Status ShellRun::RunIf(const ShellNode& node) {
  size_t i = 0;
  for (; i + 1 < node.children.size(); i += 2) {
    MSP_RETURN_IF_ERROR(RunNode(node.children[i]));
    if (flow_ != Flow::kNext) {
      return {};
    }
    const ShellNode& body = node.children[i + 1];
    if (!outcome_.code) {
      bool rest_has_effect = false;
      for (size_t other = i + 2; other < node.children.size(); ++other) {
        rest_has_effect = rest_has_effect || HasEffect(node.children[other]);
      }
      const bool rest_leaves = i + 3 == node.children.size() && LeavesScript(node.children[i + 2]);
      if (LeavesScript(body)) {
        continue;
      }
      if (!HasEffect(body) && !rest_has_effect) {
        Done(0);
        return {};
      }
      if (!rest_leaves && !Decide(outcome_)) {
        continue;
      }
    } else if (*outcome_.code != 0) {
      continue;
    }
    Done(0);
    return RunNode(body);
  }
  Done(0);
  return i < node.children.size() ? RunNode(node.children[i]) : Status();
}

Status ShellRun::RunCase(const ShellNode& node) {
  MSP_ASSIGN_OR_RETURN(const std::string subject, Text(node.words[0]));
  Done(0);
  // Patterns that may be the first to match; the last of them surely matches, or none does.
  struct Candidate {
    size_t item;
    std::string literal;  // the pattern that matches, if it is plain text
  };
  std::vector<Candidate> candidates;
  bool certain = false;
  for (size_t i = 0; i < node.items.size() && !certain; ++i) {
    work_.commands += node.items[i].patterns.size();
    bool possible = false;
    std::string literal;
    for (const ShellWord& word : node.items[i].patterns) {
      MSP_ASSIGN_OR_RETURN(const std::string pattern, Pattern(word));
      std::optional<bool> matches;
      if (std::string_view(pattern) == "*") {
        matches = true;
      } else if (!HasUnknown(subject) && !HasUnknown(pattern)) {
        matches = MatchesPattern(pattern, subject);
      } else if (subject == pattern) {
        matches = true;
      }
      if (matches == true) {
        certain = true;
        possible = true;
        break;
      }
      if (!matches) {
        possible = true;
        const bool plain = pattern.find_first_of("*?[\\(") == std::string::npos &&
                           node.items[i].patterns.size() == 1;
        literal = plain ? pattern : std::string();
      }
    }
    if (possible) {
      candidates.push_back({i, std::move(literal)});
    }
  }
  if (!certain) {
    candidates.push_back({node.items.size(), {}});
  }
  // A branch that only ends the script starts no training.
  std::vector<Candidate> kept;
  for (Candidate& candidate : candidates) {
    const ShellList* body =
        candidate.item < node.items.size() ? &node.items[candidate.item].body : nullptr;
    ShellNode group;
    bool leaves = false;
    if (body != nullptr && candidates.size() > 1) {
      for (const ShellNode& child : *body) {
        if (LeavesScript(child)) {
          leaves = true;
          break;
        }
        if (HasEffect(child)) {
          break;
        }
      }
    }
    if (!leaves) {
      kept.push_back(std::move(candidate));
    }
  }
  if (kept.empty()) {
    kept = std::move(candidates);
  }
  size_t chosen = 0;
  if (kept.size() > 1) {
    const bool any_effect = std::any_of(kept.begin(), kept.end(), [&](const Candidate& one) {
      return one.item < node.items.size() && HasEffect(node.items[one.item].body);
    });
    if (!any_effect) {
      return {};
    }
    chosen =
        static_cast<size_t>(DecideAmong(fmt::format("line {} case {}", node.line, Spelled(subject)),
                                        static_cast<int>(kept.size())));
    const std::vector<const ShellUnknown*> unknown = UnknownsIn(subject);
    if (unknown.size() == 1 && !kept[chosen].literal.empty() && subject.front() == '\x01' &&
        subject.find('\x02') + 1 == subject.size()) {
      const_cast<ShellUnknown*>(unknown[0])->binding = kept[chosen].literal;
    }
  }
  bool taken = true;
  for (size_t item = kept[chosen].item; item < node.items.size(); ++item) {
    if (!taken) {
      for (const ShellWord& word : node.items[item].patterns) {
        MSP_ASSIGN_OR_RETURN(const std::string pattern, Pattern(word));
        taken = taken || (!HasUnknown(pattern) && !HasUnknown(subject) &&
                          MatchesPattern(pattern, subject).value_or(false));
      }
    }
    if (!taken) {
      continue;
    }
    MSP_RETURN_IF_ERROR(RunList(node.items[item].body));
    if (node.items[item].then == '\0' || flow_ != Flow::kNext) {
      break;
    }
    taken = node.items[item].then == '&';
  }
  return {};
}

Result<std::string> ShellRun::Substitute(const ShellSegment& segment) {
  if (segment.commands == nullptr) {
    return UnknownText(segment.text, ShellUnknown::Kind::kOther);
  }
  if (nesting_ + 5 >= kDeepestCalls) {
    return UnknownText(segment.text, ShellUnknown::Kind::kOther);
  }
  Output captured;
  Output* const outer = std::exchange(output_, &captured);
  const bool after_launch = after_launch_;
  nesting_ += 4;
  ++substitutions_;
  const Status status = RunSubshell(*segment.commands);
  --substitutions_;
  nesting_ -= 4;
  after_launch_ = after_launch;
  output_ = outer;
  MSP_RETURN_IF_ERROR(status);
  flow_ = Flow::kNext;
  if (captured.unknown) {
    return UnknownText(segment.text, ShellUnknown::Kind::kOther);
  }
  while (captured.text.ends_with('\n')) {
    captured.text.pop_back();
  }
  return std::move(captured.text);
}

Status ShellRun::Run(const ShellScript& script) { return RunList(script.commands); }

}  // namespace msprobe::analysis::config_check::internal
