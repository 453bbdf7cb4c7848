#include "src/commands/monitor_diff_command.h"

#include <CLI/CLI.hpp>

#include "src/analysis/monitor/diff_answer.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(Examples:
  msprobe monitor diff before/monitor_output after/monitor_output
      one line per table and statistic, and what parted first
  msprobe monitor diff gpu npu --rtol 0.05 --tables actv,grad_reduced --ops norm
      norms only, up to 5 percent apart
  msprobe monitor diff one_rank eight_ranks --format json
      different numbers of ranks: norms of shards are put together; JSON for programs
  msprobe monitor diff before after --fail-on different -q
      in CI: exit code 1 when they part

Two numbers part when |A - B| > atol + rtol * max(|A|, |B|); NaN parts from everything but NaN.

)";

}  // namespace

void MonitorDiffCommand::Configure(CLI::App& app) {
  app.add_option("run_a", options_.a,
                 "A monitored run: folders <stamp>-rank<R>-<id>, or one of them")
      ->type_name("RUN_A")
      ->required();
  app.add_option("run_b", options_.b, "The run to hold against it")->type_name("RUN_B")->required();
  app.add_option("--rtol", options_.rtol, "Relative difference that is allowed (default 0.001)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--atol", options_.atol, "Absolute difference that is allowed (default 0.00001)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--tables,--data_type_list", options_.tables, "Only these tables")
      ->type_name("LIST")
      ->delimiter(',');
  app.add_option("--ops", options_.ops, "Only these statistics")->type_name("LIST")->delimiter(',');
  app.add_flag("--reduce", options_.reduce,
               "Make the values of all ranks one, also where both runs have the same ranks");
  app.add_option("--format", format_, "table or json")
      ->type_name("NAME")
      ->check(CLI::IsMember({"table", "json"}));
  AddAnswerFlags(app, answer_, monitor::kDiffLevels);
  AddThreadsFlag(app, options_.threads);
  app.footer(kExamples + FailOnHelp(monitor::kDiffLevels));
}

Result<ExitCode> MonitorDiffCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  MSP_ASSIGN_OR_RETURN(const monitor::DiffResult result, monitor::DiffRuns(options_));
  OwnForms own;
  if (format_ == "json") {
    own.instead = DiffJson(options_, result);
  }
  return GiveAnswer(MakeDocument(result), answer_, context, own);
}

}  // namespace msprobe::commands
