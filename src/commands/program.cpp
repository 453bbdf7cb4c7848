#include "src/commands/program.h"

#include "src/commands/api_precision_compare_command.h"
#include "src/commands/ckpt_compare_command.h"
#include "src/commands/code_mapping_command.h"
#include "src/commands/compare_command.h"
#include "src/commands/completion_command.h"
#include "src/commands/config_check_command.h"
#include "src/commands/data2db_command.h"
#include "src/commands/devices_command.h"
#include "src/commands/doctor_command.h"
#include "src/commands/dump_command.h"
#include "src/commands/free_benchmark_command.h"
#include "src/commands/grad_compare_command.h"
#include "src/commands/graph_command.h"
#include "src/commands/help_command.h"
#include "src/commands/isolate_command.h"
#include "src/commands/merge_result_command.h"
#include "src/commands/monitor_command.h"
#include "src/commands/msaccucmp_command.h"
#include "src/commands/nan_analyze_command.h"
#include "src/commands/op_generate_command.h"
#include "src/commands/parse_command.h"
#include "src/commands/perf_compare_command.h"
#include "src/commands/recheck_command.h"
#include "src/commands/repro_command.h"
#include "src/commands/response_anomaly_command.h"
#include "src/commands/rl_compare_command.h"
#include "src/commands/run_overflow_check_command.h"
#include "src/commands/run_ut_command.h"
#include "src/commands/serve_command.h"
#include "src/commands/show_command.h"

namespace msprobe::commands {

// The list of all commands, in the order that help shows.
Program::Program() {
  commands_.push_back(std::make_unique<RunUtCommand>("acc_check"));
  commands_.push_back(std::make_unique<ApiPrecisionCompareCommand>());
  commands_.push_back(std::make_unique<CkptCompareCommand>());
  commands_.push_back(std::make_unique<CodeMappingCommand>());
  commands_.push_back(std::make_unique<CompareCommand>());
  commands_.push_back(std::make_unique<CompletionCommand>(*this));
  commands_.push_back(std::make_unique<ConfigCheckCommand>());
  commands_.push_back(std::make_unique<Data2dbCommand>());
  commands_.push_back(std::make_unique<DevicesCommand>());
  commands_.push_back(std::make_unique<DoctorCommand>());
  commands_.push_back(std::make_unique<DumpCommand>());
  commands_.push_back(std::make_unique<FreeBenchmarkCommand>());
  commands_.push_back(std::make_unique<GradCompareCommand>());
  commands_.push_back(std::make_unique<GraphCommand>("graph"));
  commands_.push_back(std::make_unique<GraphCommand>("graph_visualize"));
  commands_.push_back(std::make_unique<HelpCommand>(*this));
  commands_.push_back(std::make_unique<IsolateCommand>());
  commands_.push_back(std::make_unique<MergeResultCommand>());
  commands_.push_back(std::make_unique<MonitorCommand>());
  commands_.push_back(std::make_unique<MsaccucmpCommand>());
  commands_.push_back(std::make_unique<RunUtCommand>("multi_acc_check"));
  commands_.push_back(std::make_unique<RunUtCommand>("multi_run_ut"));
  commands_.push_back(std::make_unique<NanAnalyzeCommand>("nan_analyze"));
  commands_.push_back(std::make_unique<NanAnalyzeCommand>("overflow_check"));
  commands_.push_back(std::make_unique<OpGenerateCommand>());
  commands_.push_back(std::make_unique<ParseCommand>());
  commands_.push_back(std::make_unique<PerfCompareCommand>());
  commands_.push_back(std::make_unique<RecheckCommand>());
  commands_.push_back(std::make_unique<ReproCommand>());
  commands_.push_back(std::make_unique<ResponseAnomalyCommand>());
  commands_.push_back(std::make_unique<RlCompareCommand>());
  commands_.push_back(std::make_unique<RunOverflowCheckCommand>());
  commands_.push_back(std::make_unique<RunUtCommand>("run_ut"));
  commands_.push_back(std::make_unique<ServeCommand>());
  commands_.push_back(std::make_unique<ShowCommand>());
}

std::string_view Program::summary() const {
  return "Find out why a large model computes wrong or slow: compare dumps, checkpoints and "
         "profiles, monitor training, inspect tensor files.\n\n"
         "It reads files of PyTorch and MindSpore and needs neither.";
}

std::vector<Flag> Program::flags() {
  return {
      {.name = "--framework",
       .letter = "-f",
       .type = "NAME",
       .fills = &framework_,
       .values = {"pytorch", "mindspore"},
       .group = Group::kGeneral,
       .help = "Framework of the data; goes before the command",
       .default_text = "detected",
       .since = kPython811},
      {.name = "--version",
       .fills = &version_,
       .group = Group::kGeneral,
       .help = "Print the version"},
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
