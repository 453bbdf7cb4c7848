#include "src/commands/monitor_csv2tb_command.h"

#include <CLI/CLI.hpp>

#include "src/analysis/monitor/answers.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(Examples:
  msprobe monitor csv2tb --monitor_path monitor_output
      all ranks and tables, into monitor_output/<now>-csv2tensorboard_by_step
  msprobe monitor csv2tb --monitor_path monitor_output --data_type_list actv,grad_reduced --output_dirpath events
      two tables, into events/rank<R>/<table>; then: tensorboard --logdir events
  msprobe monitor csv2tb --monitor_path monitor_output --time_start Dec03_21-34-40 --time_end Dec03_22-00-00
      runs that started between these times)";

}  // namespace

void MonitorCsv2tbCommand::Configure(CLI::App& app) {
  app.add_option("--monitor_path,--monitor-path", options_.run,
                 "What the monitor wrote: folders <stamp>-rank<R>-<id>")
      ->type_name("DIR")
      ->required();
  app.add_option("--time_start,--time-start", options_.find.time_start,
                 "Only runs that started then or later, e.g. Dec03_21-34-40")
      ->type_name("TIME");
  app.add_option("--time_end,--time-end", options_.find.time_end,
                 "Only runs that started then or earlier")
      ->type_name("TIME");
  app.add_option("--process_num,--process-num", options_.threads,
                 "Threads to work with (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 128));
  app.add_option("--data_type_list,--data-type-list", options_.tables,
                 "Only these tables: " + base::Join(monitor::KnownTables(), ", ") +
                     " (default: all but the last two)")
      ->type_name("LIST")
      ->delimiter(',');
  app.add_option("-o,--output_dirpath,--output-dirpath", options_.output,
                 "Folder for the event files")
      ->type_name("DIR");
  AddForceFlag(app);
  AddAnswerFlags(app, answer_);
  app.footer(kExamples);
}

Result<ExitCode> MonitorCsv2tbCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const monitor::EventResult result, monitor::ConvertToEvents(options_));
  return GiveAnswer(MakeDocument(result), answer_, context);
}

}  // namespace msprobe::commands
