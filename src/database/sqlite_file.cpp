#include "src/database/sqlite_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::database {
namespace {

// The file system through which SQLite reads an open file. Its own opens a path, and whoever may
// write to the folder can put another file under it between the look at it and the opening.

constexpr const char* kVfsName = "msprobe-descriptor";

// In the place that SQLite sets aside for a file; `base` first, as it looks there for the methods.
struct OpenedFile {
  sqlite3_file base;
  int descriptor;
  int last_error;
};

OpenedFile& FileOf(sqlite3_file* file) { return *reinterpret_cast<OpenedFile*>(file); }

int Close(sqlite3_file* /*file*/) { return SQLITE_OK; }

int Read(sqlite3_file* file, void* bytes, int count, sqlite3_int64 offset) {
  auto* out = static_cast<char*>(bytes);
  OpenedFile& opened = FileOf(file);
  int done = 0;
  while (done < count) {
    const ssize_t got = ::pread(opened.descriptor, out + done, static_cast<size_t>(count - done),
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      opened.last_error = errno;
      return SQLITE_IOERR_READ;
    }
    if (got == 0) {
      opened.last_error = 0;
      std::memset(out + done, 0, static_cast<size_t>(count - done));  // as SQLite asks for
      return SQLITE_IOERR_SHORT_READ;
    }
    done += static_cast<int>(got);
  }
  return SQLITE_OK;
}

int Size(sqlite3_file* file, sqlite3_int64* size) {
  OpenedFile& opened = FileOf(file);
  struct stat about {};
  if (::fstat(opened.descriptor, &about) != 0) {
    opened.last_error = errno;
    return SQLITE_IOERR_FSTAT;
  }
  *size = about.st_size;
  return SQLITE_OK;
}

int Control(sqlite3_file* file, int what, void* answer) {
  if (what != SQLITE_FCNTL_LAST_ERRNO) {
    return SQLITE_NOTFOUND;
  }
  *static_cast<int*>(answer) = FileOf(file).last_error;
  return SQLITE_OK;
}

int RefuseWrite(sqlite3_file* /*file*/, const void* /*bytes*/, int /*count*/,
                sqlite3_int64 /*at*/) {
  return SQLITE_READONLY;
}
int RefuseTruncate(sqlite3_file* /*file*/, sqlite3_int64 /*size*/) { return SQLITE_READONLY; }
int Sync(sqlite3_file* /*file*/, int /*flags*/) { return SQLITE_OK; }
int Lock(sqlite3_file* /*file*/, int /*kind*/) { return SQLITE_OK; }
int CheckLock(sqlite3_file* /*file*/, int* is_locked) {
  *is_locked = 0;
  return SQLITE_OK;
}
int SectorSize(sqlite3_file* /*file*/) { return 4096; }
int Characteristics(sqlite3_file* /*file*/) { return SQLITE_IOCAP_IMMUTABLE; }

const sqlite3_io_methods kMethods = {
    1,       &Close,     &Read,    &RefuseWrite, &RefuseTruncate,  &Sync,   &Size,   &Lock,
    &Lock,   &CheckLock, &Control, &SectorSize,  &Characteristics, nullptr, nullptr, nullptr,
    nullptr, nullptr,    nullptr};

sqlite3_vfs* Usual(sqlite3_vfs* vfs) { return static_cast<sqlite3_vfs*>(vfs->pAppData); }

int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* got_flags) {
  file->pMethods = nullptr;
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) {
    return name == nullptr ? Usual(vfs)->xOpen(Usual(vfs), name, file, flags, got_flags)
                           : SQLITE_CANTOPEN;  // journals beside it are not looked for
  }
  const std::string_view text = name == nullptr ? "" : name;
  const std::optional<int64_t> number =
      text.starts_with('/') ? base::ParseInt(text.substr(1)) : std::nullopt;
  if (!number || (flags & SQLITE_OPEN_READONLY) == 0) {
    return SQLITE_CANTOPEN;
  }
  FileOf(file) = {{&kMethods}, static_cast<int>(*number), 0};
  if (got_flags != nullptr) {
    *got_flags = flags;
  }
  return SQLITE_OK;
}

int Delete(sqlite3_vfs* /*vfs*/, const char* /*name*/, int /*sync*/) {
  return SQLITE_IOERR_DELETE_NOENT;
}
int Access(sqlite3_vfs* /*vfs*/, const char* /*name*/, int /*what*/, int* is_there) {
  *is_there = 0;
  return SQLITE_OK;
}
int FullName(sqlite3_vfs* /*vfs*/, const char* name, int room, char* out) {
  const size_t length = std::strlen(name);
  if (room <= 0 || length >= static_cast<size_t>(room)) {
    return SQLITE_CANTOPEN;
  }
  std::memcpy(out, name, length + 1);
  return SQLITE_OK;
}

// The name under which sqlite3_open_v2 finds it; null: SQLite refuses it. The name of a database is
// then "/<descriptor>", which stays open longer than the database and is not closed by it. Files
// that SQLite makes for itself are those of its own way.
const char* DescriptorVfs() {
  static const bool registered = [] {
    sqlite3_vfs* const usual = sqlite3_vfs_find(nullptr);
    if (usual == nullptr) {
      return false;
    }
    static sqlite3_vfs own;
    own = *usual;  // randomness, time, sleeping
    own.szOsFile = std::max(usual->szOsFile, static_cast<int>(sizeof(OpenedFile)));
    own.pNext = nullptr;
    own.zName = kVfsName;
    own.pAppData = usual;
    own.xOpen = &Open;
    own.xDelete = &Delete;
    own.xAccess = &Access;
    own.xFullPathname = &FullName;
    return sqlite3_vfs_register(&own, 0) == SQLITE_OK;
  }();
  return registered ? kVfsName : nullptr;
}

constexpr int kLongestValueBytes = 16 << 20;
constexpr size_t kMostTables = 4096;

// A row takes two bytes of its page's list of rows, and at least its size, number and header. Pages
// that are children of several others give the same rows again and again.
constexpr uint64_t kLeastRowBytes = 4;
// Texts of several rows may share the pages that they continue on: of one query over a table.
constexpr uint64_t kTextTimesFileSize = 8;
constexpr uint64_t kFreeTextBytes = uint64_t{64} << 20U;
// A row takes a step for each of its columns, each of which takes a byte, and some ten for itself;
// sorted rows take these twice.
constexpr uint64_t kStepsPerByte = 64;
constexpr uint64_t kFreeSteps = 1'000'000;
constexpr int kStepsPerLook = 10'000;

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

std::string Quoted(std::string_view name) {
  return "\"" + base::ReplaceAll(name, "\"", "\"\"") + "\"";
}

}  // namespace

// Steps of SQLite's machine that a query, or the queries of a scope, may still take.
struct ReadingSteps {
  ReadingSteps(sqlite3* of, uint64_t size_bytes, ReadingSteps*& innermost)
      : database(of),
        outer(innermost),
        current(&innermost),
        looks_left((kStepsPerByte * size_bytes + kFreeSteps) / kStepsPerLook) {
    innermost = this;
    Install(this);
  }
  ~ReadingSteps() {
    *current = outer;
    Install(outer);
  }
  ReadingSteps(const ReadingSteps&) = delete;
  ReadingSteps& operator=(const ReadingSteps&) = delete;

  void Install(ReadingSteps* steps) const {
    sqlite3_progress_handler(database, steps == nullptr ? 0 : kStepsPerLook,
                             steps == nullptr ? nullptr : &ReadingSteps::Look, steps);
  }
  static int Look(void* steps) {
    uint64_t& left = static_cast<ReadingSteps*>(steps)->looks_left;
    return left == 0 ? 1 : (--left, 0);
  }

  sqlite3* database;
  ReadingSteps* outer;
  ReadingSteps** current;
  uint64_t looks_left;
};

bool SqliteRow::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

bool SqliteRow::IsInteger(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_INTEGER;
}

int64_t SqliteRow::Integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::optional<int64_t> SqliteRow::IntegerOrNone(int column) const {
  return IsNull(column) ? std::nullopt : std::optional(Integer(column));
}

double SqliteRow::Number(int column) const { return sqlite3_column_double(statement_, column); }

std::string_view SqliteRow::Text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return text == nullptr
             ? std::string_view()
             : std::string_view(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
}

Result<SqliteFile> SqliteFile::Open(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(base::InputFile input, base::InputFile::Open(path));
  return Open(std::move(input));
}

Result<SqliteFile> SqliteFile::Open(base::InputFile input) {
  SqliteFile file;
  file.path_ = input.path().string();
  file.size_bytes_ = input.size_bytes();
  const std::string name = fmt::format("file:/{}?mode=ro&immutable=1", input.descriptor());
  file.input_ = std::move(input);
  const char* const vfs = DescriptorVfs();
  const int code =
      vfs == nullptr
          ? SQLITE_NOMEM
          : sqlite3_open_v2(name.c_str(), &file.database_,
                            SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, vfs);
  if (code != SQLITE_OK) {
    return file.Failure("cannot be opened");
  }
  sqlite3_limit(file.database_, SQLITE_LIMIT_LENGTH, kLongestValueBytes);
  sqlite3_limit(file.database_, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_db_config(file.database_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(file.database_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(file.database_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(file.database_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_exec(file.database_, "PRAGMA cell_size_check=ON", nullptr, nullptr, nullptr);
  MSP_RETURN_IF_ERROR(file.LoadTables());
  return file;
}

SqliteFile::SqliteFile(SqliteFile&& other) noexcept
    : path_(std::move(other.path_)),
      input_(std::move(other.input_)),
      size_bytes_(other.size_bytes_),
      database_(std::exchange(other.database_, nullptr)),
      tables_(std::move(other.tables_)) {}

SqliteFile& SqliteFile::operator=(SqliteFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(input_, other.input_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(database_, other.database_);
  std::swap(tables_, other.tables_);
  return *this;
}

SqliteFile::~SqliteFile() { sqlite3_close(database_); }

Status SqliteFile::Failure(std::string_view what) const {
  const int code = database_ == nullptr ? SQLITE_NOMEM : sqlite3_errcode(database_);
  std::string why = database_ == nullptr ? "out of memory" : sqlite3_errmsg(database_);
  // SQLite calls a file damaged of which the system could not read a page.
  int refused = 0;
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
    sqlite3_file_control(database_, "main", SQLITE_FCNTL_LAST_ERRNO, &refused);
  }
  if (refused != 0) {
    why = std::generic_category().message(refused);
  }
  const bool is_system =
      refused != 0 || code == SQLITE_NOMEM || code == SQLITE_IOERR || code == SQLITE_CANTOPEN;
  const std::string message = fmt::format("{} {}: {}", path_, what, why);
  if (is_system) {
    return IoError(message).WithHint("the file may be whole: check its disk and the free memory");
  }
  return BadFormatError(message).WithHint(
      "copy it again, or let the program that wrote it write it again");
}

Status SqliteFile::Damaged(std::string_view table, std::string_view why) const {
  return BadFormatError(fmt::format("{} is damaged: table {} {} than its {} can hold", path_, table,
                                    why, base::Plural(size_bytes_, "byte")))
      .WithHint("copy it again, or let the program that wrote it write it again");
}

Status SqliteFile::LoadTables() {
  const ReadingSteps steps(database_, size_bytes_, running_);
  sqlite3_stmt* raw = nullptr;
  // Virtual tables have no root page.
  int code = sqlite3_prepare_v2(
      database_, "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0", -1, &raw,
      nullptr);
  const Statement names(raw);
  if (code != SQLITE_OK) {
    return Failure("is not a readable database");
  }
  while ((code = sqlite3_step(raw)) == SQLITE_ROW && tables_.size() < kMostTables) {
    tables_.push_back({std::string(SqliteRow(raw).Text(0)), {}});
  }
  if (code != SQLITE_DONE && code != SQLITE_ROW) {
    return Failure("is not a readable database");
  }
  for (Table& table : tables_) {
    sqlite3_stmt* raw_columns = nullptr;
    const std::string query = fmt::format("SELECT name, hidden FROM pragma_table_xinfo({})",
                                          "'" + base::ReplaceAll(table.name, "'", "''") + "'");
    code = sqlite3_prepare_v2(database_, query.c_str(), -1, &raw_columns, nullptr);
    const Statement columns(raw_columns);
    if (code != SQLITE_OK) {
      return Failure("is not a readable database");
    }
    while ((code = sqlite3_step(raw_columns)) == SQLITE_ROW) {
      const SqliteRow row(raw_columns);
      if (row.Integer(1) == 0) {  // generated columns would be computed
        table.columns.emplace_back(row.Text(0));
      }
    }
    if (code != SQLITE_DONE) {
      return Failure("is not a readable database");
    }
  }
  return {};
}

const SqliteFile::Table* SqliteFile::Find(std::string_view table) const {
  const auto found = std::find_if(tables_.begin(), tables_.end(), [&](const Table& known) {
    return base::EqualsIgnoringCase(known.name, table);
  });
  return found == tables_.end() ? nullptr : &*found;
}

bool SqliteFile::HasTable(std::string_view table) const { return Find(table) != nullptr; }

std::vector<std::string> SqliteFile::Missing(
    std::string_view table, std::initializer_list<std::string_view> columns) const {
  const Table* found = Find(table);
  std::vector<std::string> missing;
  for (const std::string_view column : columns) {
    const bool there =
        found != nullptr &&
        std::any_of(found->columns.begin(), found->columns.end(), [&](const std::string& known) {
          return base::EqualsIgnoringCase(known, column);
        });
    if (!there) {
      missing.emplace_back(column);
    }
  }
  return missing;
}

Result<std::string> SqliteFile::Select(std::string_view table,
                                       std::initializer_list<std::string_view> columns) const {
  const Table* found = Find(table);
  if (found == nullptr) {
    return NotFoundError(fmt::format("{} has no table {}", path_, table));
  }
  std::string query = "SELECT ";
  for (std::string_view column : columns) {
    const bool optional = column.starts_with('?');
    column.remove_prefix(optional ? 1 : 0);
    const bool missing = !Missing(table, {column}).empty();
    if (missing && !optional) {
      return NotFoundError(fmt::format("{}: table {} has no column {}", path_, table, column));
    }
    query += missing ? "NULL," : Quoted(column) + ",";
  }
  query.back() = ' ';
  return query + "FROM " + Quoted(found->name);
}

Result<std::string> SqliteFile::Where(std::string_view table,
                                      std::initializer_list<Condition> conditions) const {
  std::string text;
  for (const Condition& condition : conditions) {
    if (!Missing(table, {condition.column}).empty()) {
      return NotFoundError(
          fmt::format("{}: table {} has no column {}", path_, table, condition.column));
    }
    text += fmt::format("{}{} = ?", text.empty() ? " WHERE " : " AND ", Quoted(condition.column));
  }
  return text;
}

Status SqliteFile::Visit(const std::string& query, std::string_view table,
                         std::initializer_list<Condition> conditions,
                         const std::function<Status(const SqliteRow&)>& visit) const {
  const ReadingSteps steps(database_, size_bytes_, running_);
  sqlite3_stmt* raw = nullptr;
  int code = sqlite3_prepare_v2(database_, query.c_str(), -1, &raw, nullptr);
  const Statement statement(raw);
  if (code != SQLITE_OK) {
    return Failure(fmt::format("table {} cannot be read", table));
  }
  int place = 0;
  for (const Condition& condition : conditions) {
    ++place;
    if (const auto* text = std::get_if<std::string_view>(&condition.value)) {
      sqlite3_bind_text(raw, place, text->data(), static_cast<int>(text->size()), SQLITE_STATIC);
    } else {
      sqlite3_bind_int64(raw, place, std::get<int64_t>(condition.value));
    }
  }
  const SqliteRow row(raw);
  const int columns = sqlite3_column_count(raw);
  uint64_t rows_left = size_bytes_ / kLeastRowBytes;
  uint64_t text_left = kTextTimesFileSize * size_bytes_ + kFreeTextBytes;
  while ((code = sqlite3_step(raw)) == SQLITE_ROW) {
    if (rows_left-- == 0) {
      return Damaged(table, "has more rows");
    }
    for (int column = 0; column < columns; ++column) {
      const int type = sqlite3_column_type(raw, column);
      if (type != SQLITE_TEXT && type != SQLITE_BLOB) {
        continue;
      }
      const auto size = static_cast<uint64_t>(sqlite3_column_bytes(raw, column));
      if (size > text_left) {
        return Damaged(table, "has more text");
      }
      text_left -= size;
    }
    MSP_RETURN_IF_ERROR(visit(row));
  }
  if (code == SQLITE_INTERRUPT) {
    return Damaged(table, "takes more steps to read");
  }
  return code == SQLITE_DONE ? Status() : Failure(fmt::format("table {} is truncated", table));
}

Status SqliteFile::ForEachRow(std::string_view table,
                              std::initializer_list<std::string_view> columns,
                              const std::function<void(const SqliteRow&)>& visit) const {
  MSP_ASSIGN_OR_RETURN(const std::string query, Select(table, columns));
  // An index that holds all columns would give the rows in its own order.
  return Visit(query + " NOT INDEXED", table, {}, [&visit](const SqliteRow& row) {
    visit(row);
    return Status();
  });
}

Status SqliteFile::ForEachMatch(std::string_view table,
                                std::initializer_list<std::string_view> columns,
                                std::initializer_list<Condition> conditions,
                                std::string_view order_by,
                                const std::function<Status(const SqliteRow&)>& visit) const {
  MSP_ASSIGN_OR_RETURN(std::string query, Select(table, columns));
  MSP_ASSIGN_OR_RETURN(const std::string where, Where(table, conditions));
  query += where;
  if (!order_by.empty()) {
    if (!Missing(table, {order_by}).empty()) {
      return NotFoundError(fmt::format("{}: table {} has no column {}", path_, table, order_by));
    }
    query += " ORDER BY " + Quoted(order_by);
  }
  return Visit(query, table, conditions, visit);
}

Result<int64_t> SqliteFile::Count(std::string_view table,
                                  std::initializer_list<Condition> conditions) const {
  const Table* found = Find(table);
  if (found == nullptr) {
    return NotFoundError(fmt::format("{} has no table {}", path_, table));
  }
  MSP_ASSIGN_OR_RETURN(const std::string where, Where(table, conditions));
  int64_t count = 0;
  // A bare count(*) walks the whole table in one step, however long that takes.
  const std::string what = where.empty() ? "1" : "count(*)";
  MSP_RETURN_IF_ERROR(Visit(fmt::format("SELECT {} FROM {}{}", what, Quoted(found->name), where),
                            table, conditions, [&](const SqliteRow& row) {
                              count = where.empty() ? count + 1 : row.Integer(0);
                              return Status();
                            }));
  return count;
}

}  // namespace msprobe::database
