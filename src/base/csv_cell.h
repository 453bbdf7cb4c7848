// Texts as cells of csv files that spreadsheets open, the same in every file that is written.
#pragma once

#include <string>
#include <string_view>

namespace msprobe::base {

// Whether a spreadsheet would take the text for a formula: it begins with = @ + - or one of their
// full-width forms, also behind what spreadsheets skip (blanks, line ends, quotes), or with a tab
// or carriage return. Numbers with a sign are numbers, and a sign alone is a text.
bool LooksLikeFormula(std::string_view text);

// In quotes where csv needs them, and with an apostrophe in front of what looks like a formula.
void AppendCsvText(std::string_view text, std::string& out);

}  // namespace msprobe::base
