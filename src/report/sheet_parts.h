// Sheets of more rows than the format holds, cut into NAME_part_0, NAME_part_1, ... of equal size.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "src/report/table.h"

namespace msprobe::report {

// What a sheet of a workbook can hold. Rows: kMaxSheetRows in writers.h, the header not counted.
inline constexpr size_t kMaxSheetColumns = 16'384;

// (first row, row count) of parts of equal size, give or take one row, none above `limit` rows.
std::vector<std::pair<size_t, size_t>> SplitEvenly(size_t row_count, size_t limit);

// "NAME_part_3", NAME cut where a sheet's name would become too long.
std::string PartSheetName(const std::string& name, size_t part);

// The parts of a table; their texts are those of `table`, which must outlive them.
std::vector<Table> SplitIntoParts(const Table& table, size_t limit);

}  // namespace msprobe::report
