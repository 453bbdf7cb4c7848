// Tables from files that this tool, the Python tool or a spreadsheet wrote.
#pragma once

#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/report/table.h"

namespace msprobe::report {

// All sheets of a workbook, in workbook order; first row = columns. Inline and shared strings,
// numbers, booleans ("True", "False"), error cells as text; formulas give their cached value.
// Limits: 1 GiB per member, 10 GiB in all.
Result<std::vector<Table>> ReadXlsx(const std::filesystem::path& path);

// RFC 4180 with or without byte order mark; every cell is text. Named after the file.
Result<Table> ReadCsv(const std::filesystem::path& path);

}  // namespace msprobe::report
