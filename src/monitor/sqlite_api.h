// The functions of SQLite that the trend store calls, as a table: the program fills it with those
// it is linked to, the capture library with those of a shared library that it opens while running.
#pragma once

#include "msprobe/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace msprobe::monitor {

// Names and types as in sqlite3.h, without the prefix.
struct SqliteApi {
  int (*open_v2)(const char*, sqlite3**, int, const char*) = nullptr;
  int (*close)(sqlite3*) = nullptr;
  int (*exec)(sqlite3*, const char*, int (*)(void*, int, char**, char**), void*, char**) = nullptr;
  int (*prepare_v2)(sqlite3*, const char*, int, sqlite3_stmt**, const char**) = nullptr;
  int (*finalize)(sqlite3_stmt*) = nullptr;
  int (*step)(sqlite3_stmt*) = nullptr;
  int (*reset)(sqlite3_stmt*) = nullptr;
  int (*bind_int64)(sqlite3_stmt*, int, long long) = nullptr;
  int (*bind_double)(sqlite3_stmt*, int, double) = nullptr;
  int (*bind_null)(sqlite3_stmt*, int) = nullptr;
  int (*bind_text)(sqlite3_stmt*, int, const char*, int, void (*)(void*)) = nullptr;
  long long (*column_int64)(sqlite3_stmt*, int) = nullptr;
  const char* (*errmsg)(sqlite3*) = nullptr;
};

// The table that is used from now on instead of a shared library; must outlive the process' last
// store. Before the first store.
void UseSqlite(const SqliteApi* api);
// That one, or libsqlite3.so.0; an error tells what to install.
Result<const SqliteApi*> FindSqlite();

}  // namespace msprobe::monitor
