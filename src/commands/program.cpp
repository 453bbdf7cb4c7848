#include "src/commands/program.h"

#include "src/commands/commands.h"

namespace msprobe::commands {

// The list of all commands, in the order that help shows.
Program::Program() {
  commands_.push_back(MakeRunUt("acc_check"));
  commands_.push_back(MakeApiPrecisionCompare());
  commands_.push_back(MakeCkptCompare());
  commands_.push_back(MakeCodeMapping());
  commands_.push_back(MakeCompare());
  commands_.push_back(MakeCompletion(*this));
  commands_.push_back(MakeConfigCheck());
  commands_.push_back(MakeData2db());
  commands_.push_back(MakeDevices());
  commands_.push_back(MakeDoctor());
  commands_.push_back(MakeDump());
  commands_.push_back(MakeFreeBenchmark());
  commands_.push_back(MakeGradCompare());
  commands_.push_back(MakeGraph("graph"));
  commands_.push_back(MakeGraph("graph_visualize"));
  commands_.push_back(MakeHelp(*this));
  commands_.push_back(MakeIsolate());
  commands_.push_back(MakeMergeResult());
  commands_.push_back(MakeMonitor());
  commands_.push_back(MakeMsaccucmp());
  commands_.push_back(MakeRunUt("multi_acc_check"));
  commands_.push_back(MakeRunUt("multi_run_ut"));
  commands_.push_back(MakeNanAnalyze("nan_analyze"));
  commands_.push_back(MakeNanAnalyze("overflow_check"));
  commands_.push_back(MakeOpGenerate());
  commands_.push_back(MakeParse());
  commands_.push_back(MakePerfCompare());
  commands_.push_back(MakeRecheck());
  commands_.push_back(MakeRepro());
  commands_.push_back(MakeResponseAnomaly());
  commands_.push_back(MakeRlCompare());
  commands_.push_back(MakeRunOverflowCheck());
  commands_.push_back(MakeRunUt("run_ut"));
  commands_.push_back(MakeServe());
  commands_.push_back(MakeShow());
}

std::string_view Program::summary() const {
  return "Find out why a large model computes wrong or slow: compare dumps, checkpoints and "
         "profiles, monitor training, inspect tensor files.\n\n"
         "It reads files of PyTorch and MindSpore and needs neither.";
}

FlagTable Program::flags() {
  return {
      Group::kGeneral,
      Choice("--framework -f", "NAME", &framework_, {"pytorch", "mindspore"},
             "Framework of the data; goes before the command", Default{"detected"}, kPython811),
      Switch("--version", &version_, "Print the version"),
  };
}

std::vector<Command*> Program::subcommands() const {
  std::vector<Command*> commands;
  for (const std::unique_ptr<Command>& command : commands_) {
    commands.push_back(command.get());
  }
  return commands;
}

Result<ExitCode> Program::Run(const Context&) { return ExitCode::kDone; }

}  // namespace msprobe::commands
