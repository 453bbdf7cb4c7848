// A table of tensors as a screen can show it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/report/table.h"

namespace msprobe::report {

// Significant digits that a screen shows of numbers.
inline constexpr int kScreenDigits = 6;

struct ScreenView {
  Table table;
  std::vector<std::string> notes;  // what the column Note says, "name: reason"
  size_t width = 0;                // characters a line takes
};

// Columns without any cell are left out, and so is "File" where files are named like their rows;
// notes stand apart because they are long. Numbers are taken to show kScreenDigits digits. When
// lines of `width` characters (0: of any length) do not suffice, columns that say little are left
// out and then the names in the first column lose their middle ("..." where `ascii`): the end of a
// name tells most, so tables cut at the right would be of no use.
ScreenView ForScreen(const Table& table, size_t width, bool ascii = false);

}  // namespace msprobe::report
