// Tables to files. Every file appears under its final name only when complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/threads.h"
#include "src/report/table.h"
#include "src/report/texts.h"

namespace msprobe::report {

// Rows below the header that a sheet of the format can hold.
inline constexpr size_t kMaxSheetRows = 1'048'575;

// Rows of a file of a csv table in parts.
inline constexpr size_t kRowsPerCsvPart = 1'000'000;

struct XlsxOptions {
  bool freeze_header = true;  // the header row stays while scrolling
  bool autofilter = true;
  bool styled_header = false;             // bold, centred, thin borders
  size_t rows_per_sheet = kMaxSheetRows;  // below the header
};

// One sheet per table; a table above 1,048,575 rows continues on sheets <name>_2, <name>_3, ...
// with the header repeated. Text is always an inline string, never a formula; characters XML
// forbids become '_'; text beyond 32,767 characters is cut. Sheets are compressed in blocks on all
// threads of `pool`; the bytes do not depend on their number.
Status WriteXlsx(const std::filesystem::path& path, std::span<const Table* const> sheets,
                 const XlsxOptions& options, base::ThreadPool& pool);

// RFC 4180, UTF-8 with a byte order mark (spreadsheets need it for Chinese). A text that a
// spreadsheet would take for a formula gets an apostrophe in front. This and the two below: rows
// are made and spelled on all threads of `pool`, if one is given; the bytes do not depend on it.
Status WriteCsv(const std::filesystem::path& path, const Table& table,
                base::ThreadPool* pool = nullptr);
// The same for a pipe: without the byte order mark.
std::string CsvText(const Table& table);
// A row of such a file by itself, for files that grow row by row; rows may differ in length.
void AppendCsvRow(std::span<const std::string_view> cells, std::string& out);

// As pandas writes a table: UTF-8 without byte order mark, line ends of one character, numbers with
// the fewest digits that read back the same. Beyond `rows_per_part` rows the files are
// <stem>_part_1.csv, <stem>_part_2.csv, ... with the header in each, otherwise <stem>.csv. Texts
// that look like formulas get the apostrophe here, too. Returns the files in order.
Result<std::vector<std::filesystem::path>> WriteCsvParts(const std::filesystem::path& stem,
                                                         const Table& table,
                                                         size_t rows_per_part = kRowsPerCsvPart,
                                                         base::ThreadPool* pool = nullptr);

// One JSON object per row, keys = columns, plus "highlight": "red" | "yellow" where a row is
// filled.
Status WriteJsonLines(const std::filesystem::path& path, const Table& table,
                      base::ThreadPool* pool = nullptr);
std::string JsonLinesText(const Table& table);

// Aligned columns for a terminal of `width` characters; wide (CJK) characters count two. Texts that
// are too long are cut with "…", or wrapped inside of their column.
struct TerminalOptions {
  size_t width = 100;
  bool color = false;
  int digits = 16;                   // significant digits of numbers
  int decimals = -1;                 // at least 0: that many behind the point instead
  bool wrap = false;                 // instead of cutting; a line per cell where that is of no use
  size_t narrowest = 8;              // columns are not wrapped below this
  bool ascii = false;                // "..." instead of "…"
  size_t rows = SIZE_MAX;            // no more than these
  std::vector<size_t> amounts = {};  // columns of texts that are aligned as numbers are
  Language language = Language::kEnglish;  // of column names, and of cells that are words
};
std::string TerminalTable(const Table& table, const TerminalOptions& options);

// The table between rules of ASCII, its name centred above it: as Python's prettytable draws it.
// Ends with a line feed.
std::string RuledTable(const Table& table);

}  // namespace msprobe::report
