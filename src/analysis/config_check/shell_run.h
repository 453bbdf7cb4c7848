// What a script would do, found out without doing any of it. Variables,
// branches, loops and functions are followed as bash follows them; no program is run, no file is
// looked up, and this process's environment is not used. What therefore cannot be known stays a
// mark inside of the texts that it is part of, and a branch that depends on it is taken one way in
// one run and the other way in the next: the caller makes a run for each list of decisions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/config_check/launch_command.h"
#include "src/analysis/config_check/shell_syntax.h"

namespace msprobe::analysis::config_check::internal {

// The text of a script that another one names ("common.sh"); nullptr: it was not given.
using ScriptLookup = std::function<const std::string*(std::string_view name)>;

// Something whose value only a running shell knows. In texts it is \x01, its number, \x02.
struct ShellUnknown {
  enum class Kind : uint8_t {
    kEnvironment,  // a variable that the script does not set
    kArgument,     // an argument of the script
    kOther,        // the output of a program, a variable that a loop may have set
  };
  std::string spelling;  // "$NAME", "$(date)"
  Kind kind = Kind::kOther;
  // In this run: it was decided that a test of its emptiness finds a value, or that it is this
  // text.
  bool assumed_set = false;
  std::optional<std::string> binding;
};

struct ShellSetting {
  std::string value;
  int line = 0;
};

// A training that the script starts.
struct ShellLaunch {
  LauncherKind kind = LauncherKind::kPython;
  std::string program;                // tells trainings apart: launcher, script or module
  std::vector<ShellField> arguments;  // behind the launcher
  std::map<std::string, ShellSetting> environment;  // what the script sets of it
  int line = 0;
};

// The work of all runs of one script together.
struct ShellWork {
  size_t commands = 0;
  size_t expanded_bytes = 0;
};

class ShellRun {
 public:
  ShellRun(const ScriptLookup& lookup, std::vector<int> decisions, ShellWork& work)
      : lookup_(lookup), decisions_(std::move(decisions)), work_(work) {}

  // Fails where a script grows beyond all measure.
  Status Run(const ShellScript& script);

  std::vector<ShellLaunch>& launches() { return launches_; }
  // What is exported now.
  std::map<std::string, ShellSetting> Environment() const;
  const std::vector<std::string>& warnings() const { return warnings_; }
  const std::vector<std::string>& read_scripts() const { return read_scripts_; }
  // What was decided, and among how many.
  const std::vector<int>& decisions() const { return decisions_; }
  const std::vector<int>& choices() const { return choices_; }

  // The unknowns in a text that holds some; in the order of the text.
  std::vector<const ShellUnknown*> UnknownsIn(std::string_view text) const;
  // With the unknowns as they are spelled.
  std::string Spelled(std::string_view text) const;

  // For tests of single words.
  Status Assign(const ShellAssignment& assignment);
  Result<std::vector<ShellField>> Expand(const std::vector<ShellWord>& words);

 private:
  class Builder;
  friend class ShellCondition;
  friend class ShellArithmetic;

  static constexpr int kDeepestCalls = 200;      // of commands inside of each other
  static constexpr int kDeepestDefaults = 16;    // of ${A:-${B:-...}}
  static constexpr int64_t kDeepestLoops = 100;  // "break 2" ends two

  struct Variable {
    bool is_set = false;
    bool exported = false;
    bool is_array = false;
    bool has_keys = false;  // declare -A
    bool is_integer = false;
    int line = 0;
    std::string text;
    std::vector<std::pair<std::string, std::string>> elements;  // by index or key
  };
  using Variables = std::unordered_map<std::string, std::shared_ptr<Variable>>;

  // What a command ended with.
  struct Outcome {
    std::optional<int> code = 0;  // nullopt: only a shell knows
    bool inverted = false;        // the rest is for those: of the condition below
    std::string key = {};         // the same text has the same outcome
    int unknown = -1;             // the condition is about this one
    enum class Is : uint8_t { kText, kEmpty } is = Is::kText;
    std::string text = {};
  };
  enum class Flow : uint8_t { kNext, kBreak, kContinue, kReturn, kExit };
  struct Output {
    std::string text;
    bool unknown = false;
  };
  struct Input {
    std::string text;
    size_t at = 0;
    bool unknown = true;
  };
  // What one name stands for.
  struct Reference {
    bool is_set = false;
    bool many = false;     // "@", "*"
    bool joined = false;   // "*"
    bool unknown = false;  // it may be set outside of the script
    std::vector<std::string> values;
  };
  // What a subshell leaves as it was.
  struct State {
    Variables variables;
    std::vector<std::string> arguments;
    bool arguments_known;
    size_t shifted;
  };

  // shell_text.cpp
  Status CountBytes(size_t bytes);
  std::string UnknownText(std::string spelling, ShellUnknown::Kind kind);
  std::string Resolve(std::string text) const;
  std::string Separators() const;
  Result<Reference> Look(const ShellSegment& segment);
  Result<Reference> LookUp(const std::string& name, const std::string& index,
                           const std::string& spelling);
  Status ExpandWord(const ShellWord& word, int depth, Builder& out);
  Status ExpandVariable(const ShellSegment& segment, int depth, Builder& out);
  Status ApplyOperation(const ShellSegment& segment, Reference& reference, int depth);
  Result<std::string> Text(const ShellWord& word);     // one field, not split
  Result<std::string> Pattern(const ShellWord& word);  // quoted characters escaped
  Result<std::string> OperandText(std::string_view text);
  Result<std::string> Substitute(const ShellSegment& segment);
  Result<std::optional<int64_t>> Arithmetic(std::string_view text);
  Status SetElement(Variable& variable, const std::string& index, std::string value, bool appends);
  Variable& Own(const std::string& name);  // to change it
  void SetText(const std::string& name, std::string value, int line = 0);

  // shell_run.cpp
  Status RunList(const ShellList& list);
  Status RunNode(const ShellNode& node);
  Status RunKind(const ShellNode& node);
  Status RunAndOr(const ShellNode& node);
  Status RunPipeline(const ShellNode& node);
  Status RunIf(const ShellNode& node);
  Status RunLoop(const ShellNode& node);
  Status RunFor(const ShellNode& node);
  Status RunCountingFor(const ShellNode& node);
  Status RunCase(const ShellNode& node);
  Status RunSubshell(const ShellList& list);
  Status RunUnknownLoop(const ShellNode& node, const ShellList& body, const std::string& key);
  Status RunCommand(const ShellNode& node);
  Status RunFields(const ShellNode& node, std::vector<ShellField> fields);
  Status RunDeclaration(const ShellNode& node);
  Status Call(const ShellNode& body, std::vector<std::string> arguments);
  Status RunText(const std::string& text, int line);  // eval
  Status RunScript(std::string_view name, std::vector<std::string> arguments, bool sourced,
                   int line);
  Status RunExternal(const ShellNode& node, std::vector<ShellField>& fields);
  void AddLaunch(const Launch& launch, std::vector<ShellField>& fields, int line);
  bool Decide(const Outcome& outcome);
  int DecideAmong(const std::string& key, int choices);
  bool HasEffect(const ShellNode& node);
  bool HasEffect(const ShellList& list);
  bool LeavesScript(const ShellNode& node);
  void Forget(const ShellNode& node);  // the variables that it sets
  void ForgetName(const std::string& name);
  bool LoopEnds();  // after a round
  void WarnAt(int line, const std::string& message);
  State Save() const { return {variables_, arguments_, arguments_known_, shifted_}; }
  void Restore(State state);

  // shell_builtins.cpp
  // False: not a builtin.
  Result<bool> RunBuiltin(const ShellNode& node, const std::vector<ShellField>& fields);
  void Print(const std::string& text);
  void Echo(const std::vector<std::string>& words);
  void Printf(std::vector<std::string> words, int line);
  Status Read(const std::vector<std::string>& words, int line);
  void ReadLines(const std::vector<std::string>& words);
  bool Filter(const std::vector<std::string>& words);
  void Test(const std::vector<std::string>& words);
  Status EvaluateCondition(const ShellNode& node);
  void Done(int code) { outcome_ = {.code = code}; }

  const ScriptLookup& lookup_;
  std::vector<int> decisions_;
  std::vector<int> choices_;
  std::map<std::string, int> decided_;
  ShellWork& work_;

  Variables variables_;
  std::unordered_map<std::string, const ShellNode*> functions_;
  std::unordered_map<const ShellNode*, bool> effects_;
  std::vector<std::string> arguments_;
  bool arguments_known_ = false;
  size_t shifted_ = 0;  // of the script's own arguments
  bool exports_all_ = false;
  std::vector<std::vector<std::pair<std::string, std::shared_ptr<Variable>>>> locals_;
  std::vector<ShellUnknown> unknowns_;
  std::unordered_map<std::string, size_t> unknown_places_;
  std::vector<std::unique_ptr<ShellScript>> scripts_;  // of eval and others: functions are in them

  Outcome outcome_;
  Flow flow_ = Flow::kNext;
  int flow_levels_ = 0;
  int nesting_ = 0;
  int subshells_ = 0;
  Output* output_ = nullptr;  // nullptr: the output is not read
  std::shared_ptr<Input> input_ = std::make_shared<Input>();
  int substitutions_ = 0;
  std::vector<ShellLaunch> launches_;
  std::vector<std::pair<std::string, std::string>> command_environment_;  // VAR=x cmd
  bool after_launch_ = false;  // the command before this one was a launch
  std::vector<std::string> warnings_;
  std::unordered_set<std::string> known_warnings_;
  std::vector<std::string> read_scripts_;
};

// What variables may be called.
bool IsVariableName(std::string_view name);
// $1, $2...: an argument.
bool IsArgumentName(std::string_view name);

}  // namespace msprobe::analysis::config_check::internal
