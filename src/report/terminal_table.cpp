#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "src/base/number_text.h"
#include "src/base/utf8.h"
#include "src/report/writers.h"

namespace msprobe::report {
namespace {

constexpr size_t kGap = 2;              // blanks between columns
constexpr size_t kNarrowestColumn = 4;  // no column is cut below this
constexpr std::string_view kEllipsis = "\u2026";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kReset = "\x1b[0m";

struct CodeRange {
  uint32_t first;
  uint32_t last;
};

// Blocks whose characters take two columns (East Asian Width W and F, and emoji).
constexpr std::array<CodeRange, 12> kWide = {{{0x1100, 0x115F},
                                              {0x2E80, 0x303E},
                                              {0x3041, 0x33FF},
                                              {0x3400, 0x4DBF},
                                              {0x4E00, 0x9FFF},
                                              {0xA000, 0xA4CF},
                                              {0xAC00, 0xD7A3},
                                              {0xF900, 0xFAFF},
                                              {0xFE30, 0xFE6F},
                                              {0xFF00, 0xFF60},
                                              {0x1F300, 0x1FAFF},
                                              {0x20000, 0x3FFFD}}};
// Combining marks and joiners take none.
constexpr std::array<CodeRange, 3> kZero = {{{0x0300, 0x036F}, {0x200B, 0x200F}, {0xFE00, 0xFE0F}}};

template <size_t kCount>
bool Contains(const std::array<CodeRange, kCount>& ranges, uint32_t code) {
  return std::any_of(ranges.begin(), ranges.end(), [code](const CodeRange& range) {
    return code >= range.first && code <= range.last;
  });
}

struct Glyph {
  size_t bytes;
  size_t width;
  bool printable;  // control characters would move the cursor or change colours
};

Glyph NextGlyph(std::string_view text) {
  const base::Utf8Char character = base::DecodeUtf8(text);
  if (!base::IsPrintable(character)) {
    return {character.bytes, 1, false};
  }
  const uint32_t code = character.code;
  const size_t width = Contains(kWide, code) ? 2 : Contains(kZero, code) ? 0 : 1;
  return {character.bytes, width, true};
}

size_t WidthOf(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const Glyph glyph = NextGlyph(text);
    width += glyph.width;
    text.remove_prefix(glyph.bytes);
  }
  return width;
}

// Appends `text` in exactly `width` columns (or fewer for the last column, which is not filled up).
void AppendFitted(std::string_view text, size_t width, bool fill, bool right, std::string& out) {
  const size_t full = WidthOf(text);
  const bool cut = full > width;
  const size_t room = cut ? width - 1 : width;
  if (right && !cut) {
    out.append(width - full, ' ');
  }
  size_t used = 0;
  while (!text.empty()) {
    const Glyph glyph = NextGlyph(text);
    if (used + glyph.width > room) {
      break;
    }
    if (glyph.printable) {
      out += text.substr(0, glyph.bytes);
    } else {
      out += text.front() == '\n' || text.front() == '\t' ? ' ' : '?';
    }
    used += glyph.width;
    text.remove_prefix(glyph.bytes);
  }
  if (cut) {
    out += kEllipsis;
    ++used;
  }
  if (fill && !(right && !cut)) {
    out.append(width - used, ' ');
  }
}

// Takes columns from the widest one until the line fits.
void Shrink(std::vector<size_t>& widths, size_t line) {
  const size_t gaps = widths.empty() ? 0 : (widths.size() - 1) * kGap;
  const size_t room = line > gaps ? line - gaps : 0;
  size_t sum = std::accumulate(widths.begin(), widths.end(), size_t{0});
  while (sum > room) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= kNarrowestColumn) {
      return;
    }
    // Down to the next narrower column, or as far as needed.
    size_t next = kNarrowestColumn;
    for (const size_t width : widths) {
      if (width < *widest) {
        next = std::max(next, width);
      }
    }
    const size_t step = std::min(sum - room, std::max<size_t>(1, *widest - next));
    *widest -= step;
    sum -= step;
  }
}

bool IsNumeric(const Cell& cell) {
  return cell.kind() == CellKind::kInteger || cell.kind() == CellKind::kNumber;
}

std::string ScreenText(const Cell& cell, int digits) {
  if (cell.kind() != CellKind::kNumber) {
    return CellText(cell);
  }
  std::string text;
  base::AppendGeneral(cell.number(), digits, text);
  return text;
}

}  // namespace

std::string TerminalTable(const Table& table, const TerminalOptions& options) {
  const size_t columns = table.columns().size();
  std::vector<size_t> widths(columns);
  std::vector<bool> right(columns, table.row_count() > 0);
  for (size_t column = 0; column < columns; ++column) {
    widths[column] = WidthOf(table.columns()[column]);
  }
  for (size_t row = 0; row < table.row_count(); ++row) {
    const std::span<const Cell> cells = table.row(row);
    for (size_t column = 0; column < columns; ++column) {
      widths[column] = std::max(widths[column], WidthOf(ScreenText(cells[column], options.digits)));
      right[column] =
          right[column] && (IsNumeric(cells[column]) || cells[column].kind() == CellKind::kEmpty);
    }
  }
  Shrink(widths, options.width);

  std::string out;
  const auto line = [&](auto&& text_of, std::string_view color) {
    if (options.color) {
      out += color;
    }
    const size_t start = out.size();
    for (size_t column = 0; column < columns; ++column) {
      const bool last = column + 1 == columns;
      AppendFitted(text_of(column), widths[column], !last, right[column], out);
      out.append(last ? 0 : kGap, ' ');
    }
    while (out.size() > start && out.back() == ' ') {
      out.pop_back();
    }
    if (options.color && !color.empty()) {
      out += kReset;
    }
    out += '\n';
  };
  line([&](size_t column) -> std::string { return table.columns()[column]; }, kBold);
  for (size_t row = 0; row < table.row_count(); ++row) {
    const Fill fill = table.fill(row);
    const std::string_view color = fill == Fill::kRed      ? kRed
                                   : fill == Fill::kYellow ? kYellow
                                                           : std::string_view();
    line([&](size_t column) { return ScreenText(table.row(row)[column], options.digits); }, color);
  }
  return out;
}

}  // namespace msprobe::report
