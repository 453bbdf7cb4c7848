// The SQLite that the program itself is linked to.
#pragma once

#include "src/monitor/sqlite_api.h"

namespace msprobe::analysis::monitor {

const msprobe::monitor::SqliteApi& LinkedSqlite();

}  // namespace msprobe::analysis::monitor
