#include "src/commands/monitor_command.h"

#include <string>

#include <CLI/CLI.hpp>

#include "src/analysis/monitor/sqlite_static.h"
#include "src/commands/monitor_analyse_command.h"
#include "src/commands/monitor_csv2db_command.h"
#include "src/commands/monitor_csv2tb_command.h"
#include "src/commands/monitor_diff_command.h"
#include "src/commands/monitor_replay_command.h"
#include "src/commands/monitor_report_command.h"
#include "src/commands/monitor_run_command.h"
#include "src/commands/monitor_top_command.h"
#include "src/commands/print.h"

namespace msprobe::commands {

// To add a subcommand: a line here, beside the others in the order of their names.
MonitorCommand::MonitorCommand() {
  commands_.push_back(std::make_unique<MonitorAnalyseCommand>());
  commands_.push_back(std::make_unique<MonitorCsv2dbCommand>());
  commands_.push_back(std::make_unique<MonitorCsv2tbCommand>());
  commands_.push_back(std::make_unique<MonitorDiffCommand>());
  commands_.push_back(std::make_unique<MonitorReplayCommand>());
  commands_.push_back(std::make_unique<MonitorReportCommand>());
  commands_.push_back(std::make_unique<MonitorRunCommand>());
  commands_.push_back(std::make_unique<MonitorTopCommand>());
}

void MonitorCommand::Configure(CLI::App& app) {
  app_ = &app;
  app.require_subcommand(0, 1);
  for (const std::unique_ptr<Command>& command : commands_) {
    CLI::App* sub =
        app.add_subcommand(std::string(command->name()), std::string(command->summary()));
    sub->fallthrough();  // -q belongs to the group
    command->Configure(*sub);
  }
  app.footer("Run `msprobe monitor COMMAND --help` for a command's flags and examples.");
}

Result<ExitCode> MonitorCommand::Run(const Context& context) {
  monitor::UseSqlite(&monitor::StaticSqlite());
  for (const std::unique_ptr<Command>& command : commands_) {
    if (app_->got_subcommand(std::string(command->name()))) {
      return command->Run(context);
    }
  }
  MSP_RETURN_IF_ERROR(Print(app_->help()));
  return ExitCode::kDone;
}

}  // namespace msprobe::commands
