#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/report/number_text.h"
#include "src/report/text_layout.h"
#include "src/report/writers.h"

namespace msprobe::report {
namespace {

constexpr size_t kGap = 2;              // blanks between columns
constexpr size_t kNarrowestColumn = 4;  // no column is cut below this
constexpr size_t kNarrowestText = 8;    // behind the label of a cell in a line of its own
constexpr std::string_view kEllipsis = "\u2026";
constexpr std::string_view kAsciiEllipsis = "...";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kRedText = "\x1b[31m";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kReset = "\x1b[0m";

// Appends `text` in exactly `width` columns (or fewer for the last column, which is not filled up).
void AppendFitted(std::string_view text, size_t width, bool fill, bool right, bool ascii,
                  std::string& out) {
  const std::string_view ellipsis = ascii ? kAsciiEllipsis : kEllipsis;
  const size_t full = ColumnsOf(text);
  const bool cut = full > width;
  const size_t room = cut ? width - std::min(width, ColumnsOf(ellipsis)) : width;
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
    out += ellipsis;
    used += ColumnsOf(ellipsis);
  }
  if (fill && !(right && !cut)) {
    out.append(width - used, ' ');
  }
}

// Takes columns from the widest one until the line fits.
void Shrink(std::vector<size_t>& widths, size_t line, size_t narrowest) {
  const size_t gaps = widths.empty() ? 0 : (widths.size() - 1) * kGap;
  const size_t room = line > gaps ? line - gaps : 0;
  size_t sum = std::accumulate(widths.begin(), widths.end(), size_t{0});
  while (sum > room) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= narrowest) {
      return;
    }
    // Down to the next narrower column, or as far as needed.
    size_t next = narrowest;
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

std::string ScreenText(const Cell& cell, const TerminalOptions& options) {
  if (cell.kind() != CellKind::kNumber) {
    return CellText(cell);
  }
  return options.decimals >= 0 && std::isfinite(cell.number())
             ? fmt::format("{:.{}f}", cell.number(), options.decimals)
             : NumberText(cell.number(), options.digits);
}

std::string OneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return base::Printable(text);
}

class TableWriter {
 public:
  TableWriter(const Table& table, const TerminalOptions& options)
      : table_(table),
        options_(options),
        widths_(table.columns().size()),
        right_(table.columns().size(), table.row_count() > 0) {
    Measure();
  }

  std::string Write() {
    if (options_.wrap && LineColumns() > options_.width) {
      return Records();
    }
    Line([&](size_t column) -> std::string { return table_.columns()[column]; }, kBold);
    for (size_t row = 0; row < RowCount(); ++row) {
      Line([&](size_t column) { return ScreenText(table_.row(row)[column], options_); },
           ColorOf(row));
    }
    return std::move(out_);
  }

 private:
  std::string_view ColorOf(size_t row) const {
    const Fill fill = table_.fill(row);
    return fill == Fill::kRed ? kRedText : fill == Fill::kYellow ? kYellow : std::string_view();
  }

  size_t LineColumns() const {
    return std::accumulate(widths_.begin(), widths_.end(), (widths_.size() - 1) * kGap);
  }

  // More columns than the screen has room for: a line per cell, rows one below the other.
  std::string Records() {
    size_t label_width = 0;
    for (const std::string& column : table_.columns()) {
      label_width = std::max(label_width, ColumnsOf(column));
    }
    label_width = std::min(label_width, options_.width / 2);
    const size_t indent = label_width + kGap;
    for (size_t row = 0; row < RowCount(); ++row) {
      out_ += row > 0 ? "\n" : "";
      for (size_t column = 0; column < widths_.size(); ++column) {
        const std::string text = OneLine(ScreenText(table_.row(row)[column], options_));
        if (text.empty()) {
          continue;
        }
        std::string label;
        AppendFitted(table_.columns()[column], label_width, true, false, options_.ascii, label);
        const size_t room = std::max(options_.width, indent + kNarrowestText) - indent;
        bool first = true;
        for (const std::string& line : WrapText(text, room, room)) {
          Paint(kBold, first ? label : std::string());
          out_.append(first ? kGap : indent, ' ');
          Paint(ColorOf(row), line);
          out_ += '\n';
          first = false;
        }
      }
    }
    return std::move(out_);
  }

  void Paint(std::string_view color, const std::string& text) {
    const bool paints = options_.color && !color.empty() && !text.empty();
    out_ += paints ? std::string(color) + text + std::string(kReset) : text;
  }

  bool HasEdge() const { return options_.width != SIZE_MAX; }

  size_t RowCount() const { return std::min(table_.row_count(), options_.rows); }

  void Measure() {
    for (size_t column = 0; column < widths_.size(); ++column) {
      widths_[column] = ColumnsOf(table_.columns()[column]);
    }
    for (size_t row = 0; row < RowCount(); ++row) {
      const std::span<const Cell> cells = table_.row(row);
      for (size_t column = 0; column < widths_.size(); ++column) {
        widths_[column] = std::max(widths_[column], ColumnsOf(ScreenText(cells[column], options_)));
        right_[column] = right_[column] &&
                         (IsNumeric(cells[column]) || cells[column].kind() == CellKind::kEmpty);
      }
    }
    for (const size_t column : options_.amounts) {
      right_[column] = true;
    }
    if (!HasEdge()) {
      for (size_t& width : widths_) {
        width = std::min(width, kMostFilledColumns);
      }
      return;
    }
    Shrink(widths_, options_.width, options_.wrap ? options_.narrowest : kNarrowestColumn);
  }

  template <typename TextOf>
  void Line(const TextOf& text_of, std::string_view color) {
    if (options_.wrap) {
      WrappedLine(text_of, color);
    } else {
      PhysicalLine(text_of, color);
    }
  }

  // A row in as many lines as its longest cell needs.
  template <typename TextOf>
  void WrappedLine(const TextOf& text_of, std::string_view color) {
    std::vector<std::vector<std::string>> cells;
    size_t lines = 1;
    for (size_t column = 0; column < widths_.size(); ++column) {
      cells.push_back(WrapText(OneLine(text_of(column)), widths_[column], widths_[column]));
      lines = std::max(lines, cells.back().size());
    }
    for (size_t line = 0; line < lines; ++line) {
      PhysicalLine(
          [&](size_t column) {
            return line < cells[column].size() ? cells[column][line] : std::string();
          },
          color);
    }
  }

  template <typename TextOf>
  void PhysicalLine(const TextOf& text_of, std::string_view color) {
    if (options_.color) {
      out_ += color;
    }
    const size_t start = out_.size();
    for (size_t column = 0; column < widths_.size(); ++column) {
      const bool last = column + 1 == widths_.size();
      const std::string text = text_of(column);
      // Without an edge nothing is cut.
      const size_t width = HasEdge() ? widths_[column] : std::max(widths_[column], ColumnsOf(text));
      AppendFitted(text, width, !last, right_[column], options_.ascii, out_);
      out_.append(last ? 0 : kGap, ' ');
    }
    while (out_.size() > start && out_.back() == ' ') {
      out_.pop_back();
    }
    if (options_.color && !color.empty()) {
      out_ += kReset;
    }
    out_ += '\n';
  }

  const Table& table_;
  const TerminalOptions& options_;
  std::vector<size_t> widths_;
  std::vector<bool> right_;
  std::string out_;
};

}  // namespace

std::string TerminalTable(const Table& table, const TerminalOptions& options) {
  return TableWriter(table, options).Write();
}

}  // namespace msprobe::report
