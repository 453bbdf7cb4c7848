// What a trend store says.
#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sqlite3.h>

namespace msprobe::analysis::monitor {

// All rows as one text, "1|a;2|-".
inline std::string Query(const std::filesystem::path& path, const std::string& sql) {
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database);
  std::string text;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    text += text.empty() ? "" : ";";
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const unsigned char* cell = sqlite3_column_text(statement, i);
      text += i > 0 ? "|" : "";
      text += cell == nullptr ? "-" : reinterpret_cast<const char*>(cell);
    }
  }
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return text;
}

}  // namespace msprobe::analysis::monitor
