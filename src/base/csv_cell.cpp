#include "src/base/csv_cell.h"

#include <algorithm>
#include <array>
#include <vector>

#include "src/base/number_text.h"
#include "src/base/strings.h"

namespace msprobe::base {
namespace {

// No-break, ideographic and zero-width blanks, and the mark of byte order, are blanks as well.
constexpr std::array<std::string_view, 10> kSkipped = {
    " ", "\t", "\r", "\n", "\"", "\xC2\xA0", "\xE3\x80\x80", "\xE2\x80\x8B", "\xEF\xBB\xBF", "\v"};
constexpr std::array<std::string_view, 6> kMarks = {"=", "@", "＝", "＋", "－", "＠"};

template <size_t kCount>
size_t LengthOfFirst(std::string_view text, const std::array<std::string_view, kCount>& words) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [text](std::string_view word) { return text.starts_with(word); });
  return found == words.end() ? 0 : found->size();
}

// "-1", "-inf", "-0.5;0.25": numbers, one or several of merged rows.
bool IsNumberList(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text, ';');
  return std::all_of(parts.begin(), parts.end(),
                     [](std::string_view part) { return ParseDouble(part).has_value(); });
}

}  // namespace

bool LooksLikeFormula(std::string_view text) {
  if (text.starts_with('\t') || text.starts_with('\r')) {
    return true;
  }
  while (const size_t skipped = LengthOfFirst(text, kSkipped)) {
    text.remove_prefix(skipped);
  }
  if (const size_t mark = LengthOfFirst(text, kMarks); mark > 0) {
    return mark == 1 || text.size() > mark;
  }
  return text.size() > 1 && (text.front() == '+' || text.front() == '-') && !IsNumberList(text);
}

void AppendCsvText(std::string_view text, std::string& out) {
  const bool quoted = text.find_first_of(",\"\r\n") != std::string_view::npos;
  out += quoted ? "\"" : "";
  out += LooksLikeFormula(text) ? "'" : "";
  if (!quoted) {
    out += text;
    return;
  }
  for (size_t quote = text.find('"'); quote != std::string_view::npos; quote = text.find('"')) {
    out += text.substr(0, quote + 1);
    out += '"';
    text.remove_prefix(quote + 1);
  }
  out += text;
  out += '"';
}

}  // namespace msprobe::base
