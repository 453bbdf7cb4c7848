#include "src/analysis/compare/formula_text.h"

#include <array>

#include "src/base/numbers.h"

namespace msprobe::analysis::compare {
namespace {

constexpr std::array<std::string_view, 10> kMarks = {"+",  "-",  "=",  "%",  "@",
                                                     "＋", "－", "＝", "％", "＠"};

bool StartsWithMark(std::string_view text) {
  for (const std::string_view mark : kMarks) {
    if (text.starts_with(mark)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool LooksLikeFormula(std::string_view text) {
  bool found = StartsWithMark(text);
  for (size_t at = text.find(';'); at != std::string_view::npos && !found;
       at = text.find(';', at + 1)) {
    found = StartsWithMark(text.substr(at + 1));
  }
  return found && !base::ParseDouble(text);
}

}  // namespace msprobe::analysis::compare
