#include "src/commands/data2db_command.h"

#include "src/analysis/monitor/sqlite_static.h"

namespace msprobe::commands {

Result<ExitCode> Data2dbCommand::Run(const Context& context) {
  monitor::UseSqlite(&monitor::StaticSqlite());
  return MonitorCsv2dbCommand::Run(context);
}

}  // namespace msprobe::commands
