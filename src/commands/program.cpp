// The list of all commands, and the way from words to one of them.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/strings.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"

namespace msprobe::commands {
namespace {

constexpr std::string_view kAliases = "Names of the Python tool";

}  // namespace

// In the order that help shows.
Program::Program()
    : CommandGroup("msprobe",
                   "Find out why a large model computes wrong or slow: compare dumps, checkpoints "
                   "and profiles, monitor training, inspect tensor files.\n\n"
                   "It reads files of PyTorch and MindSpore and needs neither.") {
  Begin("Capture");
  Take(MakeDump());
  Mention("monitor run");
  Begin("Compare");
  Take(MakeCompare());
  Take(MakeCkptCompare());
  Take(MakeDigest());
  Take(MakePerfCompare());
  Take(MakeConfigCheck());
  Take(MakeGradCompare());
  Take(MakeRlCompare());
  Mention("monitor diff");
  Take(MakeMergeResult());
  Begin("Diagnose");
  Take(MakeNanAnalyze("nan_analyze"));
  Take(MakeRecheck());
  Take(MakeIsolate());
  Take(MakeCompileCheck());
  Take(MakeBisect());
  Take(MakeHang());
  Take(MakeRunUt("run_ut"));
  Take(MakeFreeBenchmark());
  Take(MakeRepro());
  Take(MakeOpGenerate());
  Take(MakeApiPrecisionCompare());
  Take(MakeRunOverflowCheck());
  Take(MakeResponseAnomaly());
  Take(MakeGenModelConfig());
  Begin("View");
  Take(MakeShow());
  Take(MakeGraph("graph"));
  Take(MakeServe());
  Mention("monitor report");
  Mention("monitor top");
  Take(MakeMonitor());
  Begin("Ascend files");
  Take(MakeParse());
  Take(MakeMsaccucmp());
  Take(MakeCodeMapping());
  Take(MakeOfflineDump());
  Begin("This program");
  Take(MakeHelp(*this));
  Take(MakeDoctor());
  Take(MakeDevices());
  Take(MakeCompletion(*this));
  Begin(kAliases);
  Take(MakeRunUt("multi_run_ut"), "run_ut");
  Take(MakeRunUt("acc_check"), "run_ut");
  Take(MakeRunUt("multi_acc_check"), "run_ut");
  Take(MakeNanAnalyze("overflow_check"), "nan_analyze");
  Take(MakeGraph("graph_visualize"), "graph");
  Take(MakeData2db(), "monitor csv2db");
  Take(MakeInstallDeps(), "doctor");
}

void Program::Take(std::unique_ptr<Command> command, std::string_view stands_for) {
  headings_.back().commands.push_back({std::string(command->name()), stands_for});
  Add(std::move(command));
}

std::vector<Example> Program::examples() const {
  return {{"msprobe dump -o good -- python3 train.py", "capture what a training computes"},
          {"msprobe compare bad good", "name the first call of bad that differs from good"},
          {"msprobe help which", "which command answers which question"}};
}

std::vector<Topic> Program::topics() {
  std::vector<Topic> topics;
  for (const Heading& heading : headings_) {
    Topic& topic = topics.emplace_back();
    topic.title = heading.title;
    topic.is_of_aliases = heading.title == kAliases;
    for (const Listed& listed : heading.commands) {
      std::vector<std::string> words;
      for (const std::string_view word : base::Split(listed.name, ' ')) {
        words.emplace_back(word);
      }
      const CommandPath path = FindCommand(*this, words);
      topic.commands.push_back({{path.begin() + 1, path.end()}, listed.stands_for});
    }
  }
  return topics;
}

FlagTable Program::flags() {
  return {
      Group::kGeneral,
      Choice("--framework -f", "NAME", &framework_, {"pytorch", "mindspore"},
             "Framework of the data; goes before the command", Default{"detected"}, kPython811),
      Switch("--version -V", &version_, "Print the version; msprobe version does, too"),
  };
}

std::vector<Command*> Command::subcommands() const {
  std::vector<Command*> commands;
  for (const std::unique_ptr<Command>& command : below_) {
    commands.push_back(command.get());
  }
  return commands;
}

std::vector<Topic> Command::topics() {
  if (below_.empty()) {
    return {};
  }
  Topic topic{"Subcommands", {}};
  for (Command* const command : subcommands()) {
    topic.commands.push_back({{command}});
  }
  return {topic};
}

std::string TitleOf(const CommandPath& path) {
  std::string title;
  for (const Command* const command : path) {
    title += (title.empty() ? "" : " ") + std::string(command->name());
  }
  return title;
}

std::string NameBelowProgram(const CommandPath& path) {
  return TitleOf({path.begin() + 1, path.end()});
}

std::vector<std::string> SubcommandNames(const Command& command) {
  std::vector<std::string> names;
  for (const Command* const below : command.subcommands()) {
    names.emplace_back(below->name());
  }
  return names;
}

void ForEachCommand(const CommandPath& path, const std::function<void(const CommandPath&)>& see) {
  see(path);
  for (Command* const below : path.back()->subcommands()) {
    CommandPath longer = path;
    longer.push_back(below);
    ForEachCommand(longer, see);
  }
}

CommandPath FindCommand(Command& program, const std::vector<std::string>& names) {
  CommandPath path = {&program};
  for (const std::string& name : names) {
    const std::vector<Command*> below = path.back()->subcommands();
    const auto found = std::find_if(below.begin(), below.end(), [&](const Command* command) {
      return !name.empty() && (command->name() == name || command->alias() == name);
    });
    if (found == below.end()) {
      break;
    }
    path.push_back(*found);
  }
  return path;
}

std::vector<Flag> AllFlags(Command& command, GeneralValues& general) {
  std::vector<Flag> flags = RowsOf(command.flags());
  flags.push_back(Switch("--quiet -q", &general.quiet, "No progress, no summary: errors only",
                         Group::kGeneral));
  flags.push_back(
      Switch("--verbose", &general.verbose, "Also log details of the work", Group::kGeneral));
  flags.push_back(Switch("--no-config", &general.no_config,
                         "Ignore .msprobe.toml, the defaults of a project", Group::kGeneral));
  flags.back().hidden = !command.is_program();
  // Some commands have the flag for the words of their files, too, as the Python tool does.
  if (std::none_of(flags.begin(), flags.end(),
                   [](const Flag& flag) { return flag.name == "--lang"; })) {
    flags.push_back(Choice("--lang", "LANGUAGE", &general.language, {"en", "zh"},
                           "Language of what is shown; files, JSON and CSV stay as they are",
                           Default{"detected"}, FromProject{"lang"}, Group::kGeneral));
  }
  flags.push_back(Switch("--help -h", &general.help, "Show this help", Group::kGeneral));
  return flags;
}

std::vector<Flag> ShownFlags(Command& command) {
  static GeneralValues nothing_given;
  std::vector<Flag> flags = AllFlags(command, nothing_given);
  std::erase_if(flags, [](const Flag& flag) { return flag.hidden; });
  return flags;
}

}  // namespace msprobe::commands
