// The text files of Ascend's profilers: trace_view.json and the csv and JSON files beside it. Both
// readers fill in what `needs` asks for, and warn about what is missing of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/base/csv.h"
#include "src/base/files.h"
#include "src/profile/profile.h"

namespace msprobe::profile {

// The rows of a csv file, one at a time, with columns by name. For files of any
// size: nothing of them is kept.

// RFC 4180, with or without byte order mark; what follows a closing quote belongs to its cell.
// Empty lines are not rows.
class CsvRows {
 public:
  static constexpr size_t kNoColumn = SIZE_MAX;

  // Reads the header. An empty file has no columns.
  static Result<CsvRows> Open(const std::filesystem::path& path);
  // `text` must outlive the object; `name` is what messages call it.
  static Result<CsvRows> FromText(std::string_view text, std::string name);

  const std::string& name() const { return name_; }
  // kNoColumn when no column is called so. The first of several.
  size_t Find(std::string_view column) const;
  // The `columns` that are not there.
  std::vector<std::string> Missing(std::initializer_list<std::string_view> columns) const;

  // To the next row; false behind the last. Fails where a quoted cell does not end.
  Result<bool> Next();
  // Without blanks around it; empty where the row is shorter or `column` is kNoColumn. Valid until
  // Next().
  std::string_view operator[](size_t column) const;
  // The line on which the current row begins, counted from 1.
  uint64_t line() const { return tokenizer_.line(); }

 private:
  static constexpr size_t kMostColumns = 4096;

  CsvRows(std::string_view text, std::string name)
      : name_(std::move(name)),
        tokenizer_(text, {.after_quote = base::CsvDialect::AfterQuote::kJoined,
                          .most_fields = kMostColumns}) {}
  Result<bool> ReadRow();

  std::string name_;
  base::FileBytes file_;
  base::CsvTokenizer tokenizer_;
  std::vector<std::string> columns_;
};

// Numbers of a csv file. What is none counts as 0; how often that happened is reported once per
// column.
class CsvNumbers {
 public:
  explicit CsvNumbers(const CsvRows& rows) : rows_(rows) {}

  double Number(size_t column, std::string_view column_name);
  // NaN for an empty cell and "N/A".
  double NumberOrNan(size_t column, std::string_view column_name);
  void Warn(std::vector<std::string>& warnings) const;

 private:
  struct Bad {
    std::string_view column;
    uint64_t first_line;
    uint64_t count;
  };
  void Note(std::string_view column_name);

  const CsvRows& rows_;
  std::vector<Bad> bad_;
};

// trace_view.json alone: no csv is looked for beside it.
Result<Profile> ReadAscendTrace(const std::filesystem::path& file, const Needs& needs);

// `output` holds trace_view.json and the csv files (ASCEND_PROFILER_OUTPUT, or a folder like it);
// `root` holds profiler_info and profiler_metadata.
Result<Profile> ReadAscendText(const std::filesystem::path& root,
                               const std::filesystem::path& output, const Needs& needs);

}  // namespace msprobe::profile
