#include "src/monitor/sqlite_api.h"

#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

namespace msprobe::monitor {
namespace {

const SqliteApi* given_api = nullptr;

template <typename Function>
bool Load(void* library, const char* symbol, Function*& target) {
  target = reinterpret_cast<Function*>(::dlsym(library, symbol));
  return target != nullptr;
}

// Stays open until the process ends.
Result<SqliteApi> OpenLibrary() {
  constexpr const char* kName = "libsqlite3.so.0";
  constexpr const char* kHint =
      "install libsqlite3-0 (Debian) or sqlite-libs, or write csv: \"format\": \"csv\"; msprobe "
      "monitor csv2db converts it to the same store later";
  void* const library = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return NotFoundError(fmt::format("the trend store needs {}: {}", kName,
                                     why == nullptr ? "it cannot be opened" : why))
        .WithHint(kHint);
  }
  SqliteApi api;
  const bool complete =
      Load(library, "sqlite3_open_v2", api.open_v2) && Load(library, "sqlite3_close", api.close) &&
      Load(library, "sqlite3_exec", api.exec) &&
      Load(library, "sqlite3_prepare_v2", api.prepare_v2) &&
      Load(library, "sqlite3_finalize", api.finalize) && Load(library, "sqlite3_step", api.step) &&
      Load(library, "sqlite3_reset", api.reset) &&
      Load(library, "sqlite3_bind_int64", api.bind_int64) &&
      Load(library, "sqlite3_bind_double", api.bind_double) &&
      Load(library, "sqlite3_bind_null", api.bind_null) &&
      Load(library, "sqlite3_bind_text", api.bind_text) &&
      Load(library, "sqlite3_column_int64", api.column_int64) &&
      Load(library, "sqlite3_errmsg", api.errmsg);
  if (!complete) {
    return UnsupportedError(fmt::format("{} lacks functions of SQLite", kName)).WithHint(kHint);
  }
  return api;
}

}  // namespace

void UseSqlite(const SqliteApi* api) { given_api = api; }

Result<const SqliteApi*> FindSqlite() {
  if (given_api != nullptr) {
    return given_api;
  }
  static const Result<SqliteApi> kLibrary = OpenLibrary();
  if (!kLibrary.ok()) {
    return Status(kLibrary.status());
  }
  return &*kLibrary;
}

}  // namespace msprobe::monitor
