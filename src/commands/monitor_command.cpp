#include "src/commands/monitor_command.h"

#include "src/analysis/monitor/store/linked_sqlite.h"
#include "src/commands/monitor_analyse_command.h"
#include "src/commands/monitor_csv2db_command.h"
#include "src/commands/monitor_csv2tb_command.h"
#include "src/commands/monitor_diff_command.h"
#include "src/commands/monitor_replay_command.h"
#include "src/commands/monitor_report_command.h"
#include "src/commands/monitor_run_command.h"
#include "src/commands/monitor_top_command.h"

namespace msprobe::commands {

// To add a subcommand: a line here, beside the others in the order of their names.
MonitorCommand::MonitorCommand() {
  monitor::UseSqlite(&analysis::monitor::LinkedSqlite());
  commands_.push_back(std::make_unique<MonitorAnalyseCommand>());
  commands_.push_back(std::make_unique<MonitorCsv2dbCommand>());
  commands_.push_back(std::make_unique<MonitorCsv2tbCommand>());
  commands_.push_back(std::make_unique<MonitorDiffCommand>());
  commands_.push_back(std::make_unique<MonitorReplayCommand>());
  commands_.push_back(std::make_unique<MonitorReportCommand>());
  commands_.push_back(std::make_unique<MonitorRunCommand>());
  commands_.push_back(std::make_unique<MonitorTopCommand>());
}

std::vector<Command*> MonitorCommand::subcommands() const {
  std::vector<Command*> commands;
  for (const std::unique_ptr<Command>& command : commands_) {
    commands.push_back(command.get());
  }
  return commands;
}

Result<ExitCode> MonitorCommand::Run(const Context&) { return ExitCode::kDone; }

}  // namespace msprobe::commands
