#include "src/commands/monitor_report_command.h"

#include <CLI/CLI.hpp>

#include "src/analysis/monitor/answers.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(Examples:
  msprobe monitor report monitor_output -o report.html
      curves, heat maps over ranks and modules, alerts; opens in any current browser, without network
  msprobe monitor report gpu_output npu_output -o both.html
      two runs of one model laid over each other
  msprobe monitor report monitor_output -o grads.html --tables grad_reduced,exp_avg --statistics norm,max
      a smaller file: only these tables and statistics

The same run gives the same bytes.)";

}  // namespace

void MonitorReportCommand::Configure(CLI::App& app) {
  app.add_option("dir", options_.run, "The run: its folder with <stamp>-rank<R>-<id>/ inside")
      ->type_name("DIR")
      ->required();
  app.add_option("dir_b", options_.other, "A second run to lay over it")->type_name("DIR_B");
  app.add_option("-o,--output", options_.output, "HTML file to write (default: ./report.html)")
      ->type_name("FILE")
      ->default_val("report.html");
  app.add_option("--tables", options_.read.tables, "Only these tables, such as actv,grad_reduced")
      ->type_name("NAME,...")
      ->delimiter(',');
  app.add_option("--statistics", options_.read.ops, "Only these statistics, such as norm,max")
      ->type_name("NAME,...")
      ->delimiter(',');
  app.add_option("--time_start", options_.read.find.time_start,
                 "Only folders from this stamp on, such as Nov21_09-58-35")
      ->type_name("STAMP");
  app.add_option("--time_end", options_.read.find.time_end, "Only folders up to this stamp")
      ->type_name("STAMP");
  AddForceFlag(app);
  AddAnswerFlags(app, answer_);
  app.footer(kExamples);
}

Result<ExitCode> MonitorReportCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const monitor::ReportOutcome outcome, monitor::WriteReport(options_));
  return GiveAnswer(MakeDocument(outcome, options_.output), answer_, context);
}

}  // namespace msprobe::commands
