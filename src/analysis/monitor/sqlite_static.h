// The SQLite that the program itself is linked to.
#pragma once

#include "src/monitor/sqlite_api.h"

namespace msprobe::monitor {

const SqliteApi& StaticSqlite();

}  // namespace msprobe::monitor
