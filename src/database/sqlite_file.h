// Reading tables of an untrusted SQLite file. It is opened
// read-only and never changed, no journal or lock is touched, and nothing its schema defines
// (views, triggers, generated columns) is run. Pages of a damaged file may refer to each other in
// many ways, so that its tables never end: reading stops where a file of its size cannot go on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

struct sqlite3;
struct sqlite3_stmt;

namespace msprobe::database {

// The columns of the current row, in the order in which they were asked for.
class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}

  bool IsNull(int column) const;
  bool IsInteger(int column) const;
  // Texts of digits are converted; anything else is 0.
  int64_t Integer(int column) const;
  std::optional<int64_t> IntegerOrNone(int column) const;
  double Number(int column) const;
  std::string_view Text(int column) const;  // valid during the visit

 private:
  sqlite3_stmt* statement_;
};

// Rows whose `column` holds this value.
struct Condition {
  std::string_view column;
  std::variant<int64_t, std::string_view> value;
};

struct ReadingSteps;

class SqliteFile {
 public:
  // Here and below, kIo: the system refuses; kBadFormat: the file is not a database, or damaged.
  static Result<SqliteFile> Open(const std::filesystem::path& path);
  // Opens this very file, even if another one has taken its name meanwhile.
  static Result<SqliteFile> Open(base::InputFile input);
  SqliteFile(SqliteFile&&) noexcept;
  SqliteFile& operator=(SqliteFile&&) noexcept;
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;
  ~SqliteFile();

  bool HasTable(std::string_view table) const;
  // The columns among `columns` that `table` lacks; all of them if there is no such table.
  std::vector<std::string> Missing(std::string_view table,
                                   std::initializer_list<std::string_view> columns) const;
  // Rows in the order in which they stand in the table. A column whose name starts with '?' reads
  // as null where the table lacks it; another missing column or table is kNotFound.
  Status ForEachRow(std::string_view table, std::initializer_list<std::string_view> columns,
                    const std::function<void(const SqliteRow&)>& visit) const;

  // Only rows of which all conditions hold, by rising `order_by` (empty: in any order); indices of
  // the file are used. An error of `visit` ends it. Missing columns as above.
  Status ForEachMatch(std::string_view table, std::initializer_list<std::string_view> columns,
                      std::initializer_list<Condition> conditions, std::string_view order_by,
                      const std::function<Status(const SqliteRow&)>& visit) const;
  Result<int64_t> Count(std::string_view table, std::initializer_list<Condition> conditions) const;

  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  SqliteFile() = default;
  struct Table {
    std::string name;
    std::vector<std::string> columns;
  };
  const Table* Find(std::string_view table) const;
  Status LoadTables();
  // "SELECT <columns> FROM <table>"; a column that is not there fails, or is NULL behind a '?'.
  Result<std::string> Select(std::string_view table,
                             std::initializer_list<std::string_view> columns) const;
  Status Visit(const std::string& query, std::string_view table,
               std::initializer_list<Condition> conditions,
               const std::function<Status(const SqliteRow&)>& visit) const;
  // " WHERE ..." with a place for each value.
  Result<std::string> Where(std::string_view table,
                            std::initializer_list<Condition> conditions) const;
  Status Failure(std::string_view what) const;
  Status Damaged(std::string_view table, std::string_view why) const;

  std::string path_;
  std::optional<base::InputFile> input_;  // open as long as the database
  uint64_t size_bytes_ = 0;
  sqlite3* database_ = nullptr;
  mutable ReadingSteps* running_ = nullptr;  // those of the innermost query
  std::vector<Table> tables_;
};

}  // namespace msprobe::database
