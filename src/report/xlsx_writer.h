// Workbooks whose look matters to their readers: titles above groups of columns, number formats,
// widths, shades. The plain ones are in writers.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/base/threads.h"
#include "src/report/table.h"

namespace msprobe::report {

// Sheets of more rows than the format holds, cut into NAME_part_0, NAME_part_1, ... of equal size.

// Limits of a sheet of a workbook. Rows: kMaxSheetRows in writers.h, the header not counted.
inline constexpr size_t kMaxSheetColumns = 16'384;

// (first row, row count) of parts of equal size, give or take one row, none above `limit` rows.
std::vector<std::pair<size_t, size_t>> SplitEvenly(size_t row_count, size_t limit);

// "NAME_part_3", NAME cut where a sheet's name would become too long.
std::string PartSheetName(const std::string& name, size_t part);

// The parts of a table; their texts are those of `table`, which must outlive them.
std::vector<Table> SplitIntoParts(const Table& table, size_t limit);

enum class NumberFormat : uint8_t {
  kGeneral,
  kInteger,  // #,##0
  kFixed2,   // #,##0.00
  kPercent,  // 0.00%
};

// 00FF00, FFFF00, 00BFFF, 87CEFA.
enum class Shade : uint8_t { kNone, kGreen, kYellow, kDeepSky, kLightSky };

struct ColumnLayout {
  double width_characters = 20;
  NumberFormat format = NumberFormat::kGeneral;
  bool bold = false;
  Shade header = Shade::kGreen;
  bool is_ratio = false;  // above 1: red, as a percentage; infinity: red, the text INF
};

// A merged cell of the first row.
struct TitleCell {
  size_t first_column = 0;
  size_t last_column = 0;
  std::string text;
  Shade shade = Shade::kGreen;
};

// Row 1: titles; row 2 empty; row 3: column names; then the table. All cells Arial 11, left,
// vertically centred, thin borders; column names bold. Without titles the column names stand in row
// 1.
struct FormattedTable {
  Table table;
  std::vector<ColumnLayout> columns;  // one per column of the table
  std::vector<TitleCell> titles;
  std::vector<Shade> row_shades;     // one per row, or empty; a red cell shows above it
  std::vector<uint8_t> row_indents;  // of the first column's cells; one per row, or empty
};

// One sheet per table, in order; at least one. Numbers by printf's %.16G; text is never a formula
// or a link; text beyond 32,767 characters is cut. Tables longer than a sheet go on as
// <name>_2, ... Compressed on all threads of `pool`, bytes independent of their number.
Status WriteFormattedXlsx(const std::filesystem::path& path,
                          std::span<const FormattedTable* const> sheets, base::ThreadPool& pool);

}  // namespace msprobe::report
