// The SQLite that the program itself is linked to.
#pragma once

#include "src/monitor/sqlite_api.h"

namespace msprobe::monitor_analysis {

const monitor::SqliteApi& LinkedSqlite();

}  // namespace msprobe::monitor_analysis
