// A table of tensors as a screen can show it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/report/table.h"

namespace msprobe::report {

// Text in columns of a terminal: how wide it is, and where it may be broken.

struct Glyph {
  size_t bytes;
  size_t width;    // wide (CJK) characters take two columns, combining ones none
  bool printable;  // control characters would move the cursor or change colours
};

// The character at the front of `text`, which must not be empty.
Glyph NextGlyph(std::string_view text);

size_t ColumnsOf(std::string_view text);

// Where lines have no edge, nothing is filled up to more columns than this to stand below something
// longer: one very long name would make every line as long.
inline constexpr size_t kMostFilledColumns = 1024;

// Lines of at most `first` columns, then `others`: broken at blanks, words that fit nowhere behind
// a dot, slash, underscore, hyphen or comma, or in their midst. At least one line. Both widths are
// taken as 8 where they are less.
std::vector<std::string> WrapText(std::string_view text, size_t first, size_t others);

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
