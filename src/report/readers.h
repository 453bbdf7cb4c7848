// Tables from files that this tool, the Python tool or a spreadsheet wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/report/table.h"

namespace msprobe::report {

// Limits on the memory that a file may make the reader use: small files can claim to be huge.
struct ReadLimits {
  uint64_t member_bytes = uint64_t{1} << 30U;  // of one member of a workbook, or of a csv file
  uint64_t total_bytes = uint64_t{10} << 30U;  // of all members of a workbook
  // Limits on all members together, too: a multiple of the file's size, plus a constant. All sheets
  // may name one member, and that one may hold nothing but blanks.
  static constexpr uint64_t kTimesFileSize = 64;
  uint64_t free_bytes = uint64_t{512} << 20U;
  size_t cells = size_t{1} << 26U;  // of all sheets, gaps included
  // Empty cells beyond the end of rows and between cells, in addition to kGapsPerCell for each cell
  // that the file holds: results have a few in a row.
  static constexpr size_t kGapsPerCell = 32;
  size_t gaps = size_t{1} << 22U;
};

// All sheets of a workbook, in workbook order; first row = columns, named by position where a later
// row is longer. Inline and shared strings, numbers, booleans ("True", "False"), error cells as
// text; formulas give their cached value. Rows that the file leaves out are left out.
Result<std::vector<Table>> ReadXlsx(const std::filesystem::path& path,
                                    const ReadLimits& limits = {});
Result<std::vector<Table>> ReadXlsxBytes(std::span<const std::byte> file,
                                         const ReadLimits& limits = {});

// RFC 4180 with or without byte order mark; every cell is text. Named after the file.
Result<Table> ReadCsv(const std::filesystem::path& path, const ReadLimits& limits = {});
Result<Table> ReadCsvText(std::string_view text, std::string name, const ReadLimits& limits = {});

}  // namespace msprobe::report
