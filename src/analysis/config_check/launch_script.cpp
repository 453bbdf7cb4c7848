#include "src/analysis/config_check/launch_script.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/config_check/launch_command.h"
#include "src/analysis/config_check/shell_syntax.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

// Runs of one script, each with other decisions where a branch cannot be decided.
constexpr size_t kMostRuns = 256;

// What a setting is in one launch.
struct Choice {
  std::optional<json::Json> value;  // nullopt: the launch does not have it
  bool is_argument = false;         // its value is made of arguments of the script
  bool is_known = true;
  bool is_given = false;  // made of a variable where a test of its emptiness finds a value: the
                          // script has a default for it, which is the other choice
};

bool SameChoice(const Choice& a, const Choice& b) {
  return a.value.has_value() == b.value.has_value() && a.is_argument == b.is_argument &&
         a.value == b.value;
}

// Settings in the order in which they were first seen, each with all that it may be.
class Choices {
 public:
  std::vector<Choice>& operator[](const std::string& name) {
    const auto [place, is_new] = places_.emplace(name, settings_.size());
    if (is_new) {
      settings_.emplace_back(name, std::vector<Choice>());
    }
    return settings_[place->second].second;
  }
  const std::vector<Choice>* Find(const std::string& name) const {
    const auto place = places_.find(name);
    return place == places_.end() ? nullptr : &settings_[place->second].second;
  }
  static void Add(std::vector<Choice>& choices, const Choice& choice) {
    if (std::none_of(choices.begin(), choices.end(),
                     [&](const Choice& known) { return SameChoice(known, choice); })) {
      choices.push_back(choice);
    }
  }
  // Joins branches or trainings of which only one is taken: a setting that one of them lacks may be
  // absent.
  void Join(const Choices& other, bool is_first) {
    for (const auto& [name, choices] : other.settings_) {
      const bool is_new = places_.count(name) == 0;
      std::vector<Choice>& all = (*this)[name];
      if (is_new && !is_first) {
        Add(all, {});
      }
      for (const Choice& choice : choices) {
        Add(all, choice);
      }
    }
    for (auto& [name, choices] : settings_) {
      if (other.Find(name) == nullptr) {
        Add(choices, {});
      }
    }
  }
  // Joins trainings that are all started.
  void Include(const Choices& other) {
    for (const auto& [name, choices] : other.settings_) {
      for (const Choice& choice : choices) {
        Add((*this)[name], choice);
      }
    }
  }
  std::vector<std::pair<std::string, std::vector<Choice>>>& settings() { return settings_; }

 private:
  std::vector<std::pair<std::string, std::vector<Choice>>> settings_;
  std::unordered_map<std::string, size_t> places_;
};

// What the launches of one run say.
struct RunSettings {
  bool launches = false;
  Choices parameters;
  Choices environment;
  std::unordered_map<std::string, int> lines;  // of the environment
};

Choice ChoiceOf(const ShellRun& run, json::Json value) {
  Choice choice;
  for (const ShellUnknown* unknown : run.UnknownsIn(json::TextOf(value))) {
    choice.is_known = false;
    choice.is_argument = choice.is_argument || unknown->kind == ShellUnknown::Kind::kArgument;
    choice.is_given = choice.is_given || unknown->assumed_set;
  }
  if (value.is_string()) {
    // Several words in quotes, as where all of them are known.
    const std::string spelled = run.Spelled(json::TextOf(value));
    const bool bare = !choice.is_known && spelled.find_first_of(" \t\n") != std::string::npos &&
                      !spelled.starts_with('"');
    value = bare ? fmt::format("\"{}\"", spelled) : spelled;
  }
  choice.value = std::move(value);
  return choice;
}

void AddEnvironment(const ShellRun& run, const std::map<std::string, ShellSetting>& variables,
                    RunSettings& settings, Choices& environment) {
  for (const auto& [name, setting] : variables) {
    Choices::Add(environment[name], ChoiceOf(run, json::Json(setting.value)));
    settings.lines[name] = setting.line;
  }
}

RunSettings SettingsOf(ShellRun& run) {
  RunSettings settings;
  std::vector<ShellLaunch>& launches = run.launches();
  settings.launches = !launches.empty();
  // Plain Python commands in front of the launch prepare something; without a launcher they are
  // the training.
  auto first = std::find_if(launches.begin(), launches.end(), [](const ShellLaunch& found) {
    return found.kind == LauncherKind::kDistributed;
  });
  first = first == launches.end() ? launches.begin() : first;
  // Launches of one program are variants of one training.
  std::vector<std::pair<std::string, Choices>> programs;
  bool is_first = true;
  for (; first != launches.end(); ++first) {
    Parameters parameters;
    ReadLaunchArguments(first->kind, first->arguments, parameters);
    Choices own;
    for (const auto& [name, value] : parameters.object().items()) {
      Choices::Add(own[run.Spelled(name)], ChoiceOf(run, value));
    }
    auto program = std::find_if(programs.begin(), programs.end(),
                                [&](const auto& known) { return known.first == first->program; });
    const bool is_new = program == programs.end();
    if (is_new) {
      program = programs.emplace(programs.end(), first->program, Choices());
    }
    program->second.Join(own, is_new);
    Choices environment;
    AddEnvironment(run, first->environment, settings, environment);
    settings.environment.Join(environment, is_first);
    is_first = false;
  }
  for (const auto& [name, choices] : programs) {
    settings.parameters.Include(choices);
  }
  if (!settings.launches) {
    AddEnvironment(run, run.Environment(), settings, settings.environment);
  }
  return settings;
}

// nullopt: the value is unknown.
std::optional<json::Json> OnlyOrAll(std::vector<Choice> choices) {
  const auto is_given = [](const Choice& choice) { return choice.is_given; };
  // The default, if there is one: an option that is only there with the variable is undecided.
  if (std::any_of(choices.begin(), choices.end(), [](const Choice& choice) {
        return choice.value && !choice.is_given && !choice.is_argument;
      })) {
    choices.erase(std::remove_if(choices.begin(), choices.end(), is_given), choices.end());
  }
  std::vector<json::Json> values;
  bool has_value = false;
  for (Choice& choice : choices) {
    const bool tells = choice.value && !choice.is_argument;
    json::Json value = tells ? *std::move(choice.value) : json::Json();
    has_value = has_value || tells;
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      values.push_back(std::move(value));
    }
  }
  if (!has_value) {
    return std::nullopt;
  }
  return values.size() == 1 ? std::move(values[0]) : OneOf(std::move(values));
}

// What the Python tool finds in a plain script and a shell would not: it reads on behind the end of
// the launch, up to the first |. Where it went on, a flag at the end has taken the word behind it.
// Returns the names that come from there.
std::vector<std::string> AddWhatThePythonToolFinds(std::string_view text, Parameters& parameters) {
  const Parameters theirs = ReadLaunchScriptAsPythonTool(text);
  std::vector<std::string> added;
  std::vector<std::pair<std::string, json::Json>> missing;
  for (const auto& [name, value] : theirs.object().items()) {
    if (parameters.Find(name) == nullptr) {
      missing.emplace_back(name, value);
    }
  }
  if (missing.empty()) {
    return added;
  }
  for (const auto& [name, value] : theirs.object().items()) {
    const json::Json* ours = parameters.Find(name);
    const bool takes_text = value.is_string() && !json::TextOf(value).starts_with('-');
    if (ours != nullptr && ours->is_boolean() && takes_text) {
      parameters.Set(name, value);
      added.push_back(name);
    }
  }
  for (auto& [name, value] : missing) {
    // An option that was taken for the value of another one.
    const bool is_option = value.is_string() && json::TextOf(value).starts_with("--");
    parameters.Set(name, is_option ? json::Json(true) : std::move(value));
    added.push_back(name);
  }
  return added;
}

}  // namespace

Result<LaunchScript> ReadLaunchScript(std::string_view text, const ScriptLookup& lookup) {
  LaunchScript result;
  std::unordered_set<std::string> warned;
  const auto warn = [&](const std::string& warning) {
    if (warned.insert(warning).second) {
      result.warnings.push_back(warning);
    }
  };
  if (text.find_first_of(std::string_view("\x01\x02\0", 3)) != std::string_view::npos) {
    return BadFormatError("holds control characters: this is not a script");
  }
  MSP_ASSIGN_OR_RETURN(ShellScript script, ParseShell(text));
  result.warnings = script.warnings;

  ShellWork work;
  std::deque<std::vector<int>> waiting = {{}};
  RunSettings all;
  bool first_launch = true;
  bool first_without = true;
  size_t runs = 0;
  bool complete = true;
  while (!waiting.empty()) {
    if (runs == kMostRuns) {
      complete = false;
      break;
    }
    const std::vector<int> decisions = std::move(waiting.front());
    waiting.pop_front();
    ShellRun run(lookup, decisions, work);
    const Status status = run.Run(script);
    if (!status.ok() && runs == 0) {
      return status;
    }
    if (!status.ok()) {
      complete = false;
      break;
    }
    ++runs;
    for (const std::string& warning : run.warnings()) {
      warn(warning);
    }
    for (const std::string& name : run.read_scripts()) {
      if (!base::IsOneOf(name, result.read_scripts)) {
        result.read_scripts.push_back(name);
      }
    }
    RunSettings settings = SettingsOf(run);
    // A run without a training says nothing about the training.
    if (settings.launches && !all.launches) {
      all.environment = {};
    }
    if (settings.launches || !all.launches) {
      bool& is_first = settings.launches ? first_launch : first_without;
      all.launches = settings.launches;
      all.parameters.Join(settings.parameters, is_first);
      all.environment.Join(settings.environment, is_first);
      is_first = false;
      for (const auto& [name, line] : settings.lines) {
        all.lines[name] = line;
      }
    }
    for (size_t i = decisions.size(); i < run.decisions().size(); ++i) {
      for (int other = 1; other < run.choices()[i]; ++other) {
        if (runs + waiting.size() >= kMostRuns) {
          complete = false;
          break;
        }
        std::vector<int> next(run.decisions().begin(),
                              run.decisions().begin() + static_cast<std::ptrdiff_t>(i));
        next.push_back(other);
        waiting.push_back(std::move(next));
      }
    }
  }
  if (!complete) {
    warn(fmt::format("its branches combine in more than {} ways: values may be missing", runs));
  }
  std::vector<std::string> undecided;
  std::vector<std::string> unknown;
  for (auto& [name, choices] : all.parameters.settings()) {
    const bool argument = std::any_of(choices.begin(), choices.end(),
                                      [](const Choice& choice) { return choice.is_argument; });
    if (argument) {
      unknown.push_back(name);
    }
    std::optional<json::Json> value = OnlyOrAll(std::move(choices));
    if (!value) {
      continue;
    }
    if (value->is_object()) {
      undecided.push_back(name);
    }
    result.parameters.Set(name, *std::move(value));
  }
  if (!unknown.empty()) {
    warn(
        fmt::format("what the script is given decides about {}: not recorded where it has no "
                    "default",
                    base::Join(unknown, ", ")));
  }
  if (!undecided.empty()) {
    warn(
        fmt::format("more than one value, of branches that only a running shell can decide or of "
                    "several trainings, all are recorded: {}",
                    base::Join(undecided, ", ")));
  }
  for (auto& [name, choices] : all.environment.settings()) {
    const bool is_known = std::all_of(choices.begin(), choices.end(),
                                      [](const Choice& choice) { return choice.is_known; });
    if (std::optional<json::Json> value = OnlyOrAll(std::move(choices))) {
      result.environment.push_back({name, *std::move(value), is_known, all.lines[name]});
    }
  }
  // Not where an argument decides: it would be recorded as "$1" after all.
  if (script.is_plain && unknown.empty()) {
    const std::vector<std::string> added = AddWhatThePythonToolFinds(text, result.parameters);
    if (!added.empty() && all.launches) {
      warn(fmt::format("recorded as the Python tool reads them, behind the end of a launch: {}",
                       base::Join(added, ", ")));
    }
  }
  return result;
}

namespace {

constexpr std::string_view kPythonBlanks = " \t\n\r\f\v";
constexpr std::string_view kBlockStart = "_ARGS=\"";
constexpr size_t kBlockNameLimit = 20;  // characters in front of _ARGS
// Blocks replaced by blocks double the text each time, and every variable is a search through the
// script: beyond this many bytes looked at nothing more is replaced.
constexpr size_t kWorkLimitBytes = size_t{64} << 20U;

bool IsBlank(char c) { return kPythonBlanks.find(c) != std::string_view::npos; }
bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Every line cut at its first #, empty lines gone.
std::string WithoutComments(std::string_view text) {
  std::string result;
  for (std::string_view line : base::Split(text, '\n')) {
    line = line.substr(0, line.find('#'));
    line = line.substr(0, line.find_last_not_of(kPythonBlanks) + 1);
    if (!line.empty()) {
      result += result.empty() ? "" : "\n";
      result += line;
    }
  }
  return result;
}

// Where `words` stand one behind the other, with blanks between and behind; npos if nowhere.
template <size_t kCount>
bool StandsAt(std::string_view text, size_t at, const std::array<std::string_view, kCount>& words) {
  for (size_t i = 0; i < kCount; ++i) {
    if (!text.substr(at).starts_with(words[i])) {
      return false;
    }
    at += words[i].size();
    if (i == 0 && kCount > 1 && at < text.size() && text[at] >= '0' && text[at] <= '9') {
      ++at;  // python3
    }
    if (at == text.size() || !IsBlank(text[at])) {
      return false;
    }
    at = std::min(text.find_first_not_of(kPythonBlanks, at), text.size());
  }
  return true;
}

// From the launcher to the first | or the end, over lines. Empty: no launcher.
std::string_view LaunchText(std::string_view script) {
  constexpr std::array<std::string_view, 1> kMsrun = {"msrun"};
  constexpr std::array<std::string_view, 1> kTorchrun = {"torchrun"};
  constexpr std::array<std::string_view, 3> kModule = {"python", "-m", "torch.distributed.launch"};
  for (size_t at = script.find_first_of("mtp"); at != std::string_view::npos;
       at = script.find_first_of("mtp", at + 1)) {
    if (StandsAt(script, at, kMsrun) || StandsAt(script, at, kTorchrun) ||
        StandsAt(script, at, kModule)) {
      return script.substr(at, script.find('|', at) - at);
    }
  }
  return {};
}

// {"GPT_ARGS", its text} in the order of the script.
std::vector<std::pair<std::string, std::string>> FindBlocks(std::string_view script) {
  std::vector<std::pair<std::string, std::string>> blocks;
  size_t from = 0;
  for (size_t at = script.find(kBlockStart); at != std::string_view::npos;
       at = script.find(kBlockStart, at)) {
    size_t begin = at;
    while (begin > from && at - begin < kBlockNameLimit && IsWordCharacter(script[begin - 1])) {
      --begin;
    }
    const size_t text = at + kBlockStart.size();
    const size_t end = script.find('"', text);
    if (begin == at || end == std::string_view::npos) {
      ++at;
      continue;
    }
    blocks.emplace_back(script.substr(begin, at - begin + kBlockStart.size() - 2),
                        base::ReplaceAll(script.substr(text, end - text), "\n", " "));
    at = end + 1;
    from = at;
  }
  return blocks;
}

size_t CountOf(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// The value with the variable that it begins with replaced by what the last NAME= is followed by.
std::string Resolve(std::string_view value, std::string_view script) {
  if (!value.starts_with('$')) {
    return std::string(value);
  }
  const size_t begin = value.starts_with("${") ? 2 : 1;
  size_t end = begin;
  while (end < value.size() && IsWordCharacter(value[end])) {
    ++end;
  }
  if (end == begin) {
    return std::string(value);
  }
  const std::string name = std::string(value.substr(begin, end - begin)) + "=";
  for (size_t at = script.rfind(name); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : script.rfind(name, at - 1)) {
    const size_t text = script.find_first_not_of(kPythonBlanks, at + name.size());
    if (text != std::string_view::npos) {
      return std::string(script.substr(text, script.find('\n', text) - text));
    }
  }
  return std::string(value);
}

}  // namespace

Parameters ReadLaunchScriptAsPythonTool(std::string_view text) {
  const std::string script = WithoutComments(text);
  std::string command(LaunchText(script));
  size_t work = 0;
  for (const auto& [name, block] : FindBlocks(script)) {
    const std::string reference = "$" + name;
    work += command.size() + CountOf(command, reference) * block.size();
    if (work > kWorkLimitBytes) {
      break;
    }
    command = base::ReplaceAll(command, reference, block);
  }
  Parameters parameters;
  const std::string_view view = command;
  for (size_t at = view.find("--"); at != std::string_view::npos; at = view.find("--", at)) {
    const size_t name = at + 2;
    size_t end = name;
    while (end < view.size() && (IsWordCharacter(view[end]) || view[end] == '-')) {
      ++end;
    }
    if (end == name) {
      ++at;
      continue;
    }
    const std::string key(view.substr(name, end - name));
    const size_t value = std::min(view.find_first_not_of(kPythonBlanks, end), view.size());
    size_t value_end = value;
    while (value > end && value_end < view.size() && !IsBlank(view[value_end]) &&
           view[value_end] != '\\') {
      ++value_end;
    }
    const bool has_value = value_end > value;
    work += has_value && view[value] == '$' ? script.size() : 0;
    const std::string_view source = work > kWorkLimitBytes ? std::string_view() : script;
    parameters.Set(key, has_value
                            ? json::Json(Resolve(view.substr(value, value_end - value), source))
                            : json::Json(true));
    at = has_value ? value_end : end;
  }
  return parameters;
}

}  // namespace msprobe::analysis::config_check::internal
