#include "src/json/text_position.h"

#include <algorithm>

#include <fmt/format.h>

namespace msprobe::json::internal {

TextPosition Locate(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t line_start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  const auto breaks = static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  return {breaks + 1, before.size() - line_start + 1};
}

Status ErrorAt(std::string_view text, size_t offset, std::string_view what) {
  const TextPosition place = Locate(text, offset);
  return BadFormatError(
      fmt::format("line {} column {} (byte {}): {}", place.line, place.column, offset, what));
}

}  // namespace msprobe::json::internal
