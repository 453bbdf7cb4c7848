#include "src/analysis/monitor/store/linked_sqlite.h"

#include <sqlite3.h>

namespace msprobe::analysis::monitor {

const msprobe::monitor::SqliteApi& LinkedSqlite() {
  static const msprobe::monitor::SqliteApi kApi = {
      sqlite3_open_v2,     sqlite3_close,     sqlite3_exec,      sqlite3_prepare_v2,
      sqlite3_finalize,    sqlite3_step,      sqlite3_reset,     sqlite3_bind_int64,
      sqlite3_bind_double, sqlite3_bind_null, sqlite3_bind_text, sqlite3_column_int64,
      sqlite3_errmsg};
  return kApi;
}

}  // namespace msprobe::analysis::monitor
