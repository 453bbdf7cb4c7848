// Text in columns of a terminal: how wide it is, and where it may be broken.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::report {

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

}  // namespace msprobe::report
