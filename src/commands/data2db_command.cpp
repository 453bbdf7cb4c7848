#include "src/commands/data2db_command.h"

#include "src/analysis/monitor/store/linked_sqlite.h"

namespace msprobe::commands {

Result<ExitCode> Data2dbCommand::Run(const Context& context) {
  monitor::UseSqlite(&analysis::monitor::LinkedSqlite());
  return MonitorCsv2dbCommand::Run(context);
}

}  // namespace msprobe::commands
