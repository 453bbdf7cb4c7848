// Texts that a spreadsheet could take for a formula. They are always written as plain text; that
// they occur is worth a warning.
#pragma once

#include <string_view>

namespace msprobe::analysis::compare {

// Starts with one of + - = % @ (or their full-width forms), or has one of them behind a semicolon,
// and is no number.
bool LooksLikeFormula(std::string_view text);

}  // namespace msprobe::analysis::compare
