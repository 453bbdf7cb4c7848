// The list of all commands, and the way from words to one of them.
#include <algorithm>
#include <string>
#include <vector>

#include "src/commands/command.h"
#include "src/commands/commands.h"

namespace msprobe::commands {

// In the order that help shows.
Program::Program()
    : CommandGroup("msprobe",
                   "Find out why a large model computes wrong or slow: compare dumps, checkpoints "
                   "and profiles, monitor training, inspect tensor files.\n\n"
                   "It reads files of PyTorch and MindSpore and needs neither.") {
  Add(MakeRunUt("acc_check"));
  Add(MakeApiPrecisionCompare());
  Add(MakeCkptCompare());
  Add(MakeCodeMapping());
  Add(MakeCompare());
  Add(MakeCompletion(*this));
  Add(MakeConfigCheck());
  Add(MakeData2db());
  Add(MakeDevices());
  Add(MakeDoctor());
  Add(MakeDump());
  Add(MakeFreeBenchmark());
  Add(MakeGradCompare());
  Add(MakeGraph("graph"));
  Add(MakeGraph("graph_visualize"));
  Add(MakeHelp(*this));
  Add(MakeIsolate());
  Add(MakeMergeResult());
  Add(MakeMonitor());
  Add(MakeMsaccucmp());
  Add(MakeRunUt("multi_acc_check"));
  Add(MakeRunUt("multi_run_ut"));
  Add(MakeNanAnalyze("nan_analyze"));
  Add(MakeNanAnalyze("overflow_check"));
  Add(MakeOpGenerate());
  Add(MakeParse());
  Add(MakePerfCompare());
  Add(MakeRecheck());
  Add(MakeRepro());
  Add(MakeResponseAnomaly());
  Add(MakeRlCompare());
  Add(MakeRunOverflowCheck());
  Add(MakeRunUt("run_ut"));
  Add(MakeServe());
  Add(MakeShow());
}

FlagTable Program::flags() {
  return {
      Group::kGeneral,
      Choice("--framework -f", "NAME", &framework_, {"pytorch", "mindspore"},
             "Framework of the data; goes before the command", Default{"detected"}, kPython811),
      Switch("--version", &version_, "Print the version"),
  };
}

std::vector<Command*> Command::subcommands() const {
  std::vector<Command*> commands;
  for (const std::unique_ptr<Command>& command : below_) {
    commands.push_back(command.get());
  }
  return commands;
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
