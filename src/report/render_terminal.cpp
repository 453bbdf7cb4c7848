#include "src/report/render_terminal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/report/render.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::report {
namespace {

constexpr size_t kNarrowest = 8;
constexpr std::string_view kBreakBehind = "./_-,";

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

// How many bytes of a word that is too long go into `room` columns.
size_t BytesThatFit(std::string_view word, size_t room) {
  size_t columns = 0;
  size_t at = 0;
  size_t behind_mark = 0;
  while (at < word.size()) {
    const Glyph glyph = NextGlyph(word.substr(at));
    if (columns + glyph.width > room) {
      break;
    }
    columns += glyph.width;
    at += glyph.bytes;
    // Not so early that most of the line stays empty.
    if (columns * 2 > room && kBreakBehind.find(word[at - 1]) != std::string_view::npos) {
      behind_mark = at;
    }
  }
  return behind_mark > 0 && at < word.size() ? behind_mark : at;
}

}  // namespace

Glyph NextGlyph(std::string_view text) {
  const base::Utf8Char character = base::DecodeUtf8(text);
  if (!base::IsPrintable(character)) {
    return {character.bytes, 1, false};
  }
  const uint32_t code = character.code;
  const size_t width = Contains(kWide, code) ? 2 : Contains(kZero, code) ? 0 : 1;
  return {character.bytes, width, true};
}

size_t ColumnsOf(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const Glyph glyph = NextGlyph(text);
    width += glyph.width;
    text.remove_prefix(glyph.bytes);
  }
  return width;
}

std::vector<std::string> WrapText(std::string_view text, size_t first, size_t others) {
  first = std::max(first, kNarrowest);
  others = std::max(others, kNarrowest);
  std::vector<std::string> lines(1);
  size_t columns = 0;
  bool begins = true;  // no word stands in the line yet
  const auto room = [&] { return lines.size() == 1 ? first : others; };
  const auto next_line = [&] {
    lines.emplace_back();
    columns = 0;
    begins = true;
  };
  for (std::string_view word : base::Split(text, ' ')) {
    size_t left = ColumnsOf(word);  // counted once: a word may be very long
    if (!begins && columns + 1 + left > room()) {
      next_line();
    }
    if (!begins) {
      lines.back() += ' ';
      ++columns;
    }
    while (columns + left > room()) {
      const size_t bytes = std::max<size_t>(BytesThatFit(word, room() - columns), 1);
      lines.back() += word.substr(0, bytes);
      left -= std::min(left, ColumnsOf(word.substr(0, bytes)));
      word.remove_prefix(bytes);
      next_line();
    }
    lines.back() += word;
    columns += left;
    begins = false;
  }
  return lines;
}

namespace {

constexpr size_t kColumnGap = 2;  // blanks between columns
constexpr size_t kShortestName = 30;
constexpr std::string_view kNoteColumn = "Note";
constexpr std::string_view kFileColumn = "File";
// The columns that are left out first where there is no room: a file is named like its row, the
// others matter rarely.
constexpr std::array<std::string_view, 5> kDispensable = {"File", "Json_bytes", "Requires_grad",
                                                          "Framework", "Md5"};

size_t CharacterCount(std::string_view text) {
  size_t count = 0;
  while (!text.empty()) {
    text.remove_prefix(base::DecodeUtf8(text).bytes);
    ++count;
  }
  return count;
}

// `count` characters from the front, in bytes.
size_t BytesOf(std::string_view text, size_t count) {
  size_t bytes = 0;
  for (; count > 0 && bytes < text.size(); --count) {
    bytes += base::DecodeUtf8(text.substr(bytes)).bytes;
  }
  return bytes;
}

std::string WithoutMiddle(std::string_view text, size_t characters, std::string_view ellipsis) {
  const size_t all = CharacterCount(text);
  if (all <= characters) {
    return std::string(text);
  }
  const size_t kept = characters - CharacterCount(ellipsis);
  const size_t front = kept / 3;
  const size_t back = kept - front;
  std::string cut(text.substr(0, BytesOf(text, front)));
  cut += ellipsis;
  cut += text.substr(BytesOf(text, all - back));
  return cut;
}

std::string ShortText(const Cell& cell) {
  if (cell.kind() != CellKind::kNumber) {
    return CellText(cell);
  }
  std::string text;
  base::AppendGeneral(cell.number(), kScreenDigits, text);
  return text;
}

// Whether a column repeats the first one: "x" and "x.pt".
bool RepeatsName(const Table& table, size_t index) {
  constexpr size_t kLongestEnding = 12;
  for (size_t row = 0; row < table.row_count(); ++row) {
    const std::string name = CellText(table.row(row)[0]);
    const std::string text = CellText(table.row(row)[index]);
    if (!text.empty() && (!text.starts_with(name) || text.size() > name.size() + kLongestEnding)) {
      return false;
    }
  }
  return true;
}

struct Column {
  size_t index;
  size_t width;
};

// The columns with something in them.
std::vector<Column> UsedColumns(const Table& table) {
  std::vector<Column> used;
  for (size_t index = 0; index < table.columns().size(); ++index) {
    const std::string& name = table.columns()[index];
    bool has_cell = false;
    size_t width = CharacterCount(name);
    for (size_t row = 0; row < table.row_count(); ++row) {
      const Cell& cell = table.row(row)[index];
      has_cell = has_cell || cell.kind() != CellKind::kEmpty;
      width = std::max(width, CharacterCount(ShortText(cell)));
    }
    if (name == kNoteColumn || (name == kFileColumn && RepeatsName(table, index))) {
      continue;
    }
    if (has_cell) {
      used.push_back({index, width});
    }
  }
  return used;
}

size_t LineWidth(const std::vector<Column>& columns) {
  const size_t gaps = columns.empty() ? 0 : (columns.size() - 1) * kColumnGap;
  return std::accumulate(columns.begin(), columns.end(), gaps,
                         [](size_t sum, const Column& column) { return sum + column.width; });
}

// Makes lines fit into `width`, as far as can be.
void Narrow(const Table& table, size_t width, std::vector<Column>& columns) {
  for (std::string_view name : kDispensable) {
    const auto found = std::find_if(columns.begin(), columns.end(), [&](const Column& column) {
      return table.columns()[column.index] == name;
    });
    if (LineWidth(columns) > width && found != columns.end()) {
      columns.erase(found);
    }
  }
  const size_t line = LineWidth(columns);
  if (line > width && !columns.empty()) {
    size_t& name = columns.front().width;
    const size_t excess = line - width;
    name = std::min(name, std::max(kShortestName, name > excess ? name - excess : 0));
  }
}

}  // namespace

ScreenView ForScreen(const Table& table, size_t width, bool ascii) {
  const std::string_view ellipsis = ascii ? "..." : "…";
  ScreenView view;
  std::vector<Column> columns = UsedColumns(table);
  if (width > 0) {
    Narrow(table, width, columns);
  }
  view.width = LineWidth(columns);
  std::vector<std::string> names;
  names.reserve(columns.size());
  for (const Column& column : columns) {
    names.push_back(table.columns()[column.index]);
  }
  view.table = Table(table.name(), std::move(names));
  view.table.Reserve(table.row_count());
  const auto note = std::find(table.columns().begin(), table.columns().end(), kNoteColumn);
  const auto note_index = static_cast<size_t>(note - table.columns().begin());
  std::vector<Cell> cells(columns.size());
  for (size_t row = 0; row < table.row_count(); ++row) {
    for (size_t i = 0; i < columns.size(); ++i) {
      cells[i] = table.row(row)[columns[i].index];
      if (cells[i].kind() == CellKind::kText) {
        cells[i] =
            view.table.KeepText(i == 0 ? WithoutMiddle(cells[i].text(), columns[i].width, ellipsis)
                                       : std::string(cells[i].text()));
      }
    }
    view.table.AddRow(cells, table.fill(row));
    if (note != table.columns().end()) {
      const Cell& text = table.row(row)[note_index];
      if (text.kind() == CellKind::kText) {
        view.notes.push_back(
            base::Printable(CellText(table.row(row)[0]) + ": " + std::string(text.text())));
      }
    }
  }
  return view;
}

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

// Takes columns from the widest one until the line fits; what is equally wide shrinks in turn.
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
    const bool alone = std::count(widths.begin(), widths.end(), *widest) == 1;
    const size_t step =
        alone ? std::min(sum - room, std::max<size_t>(1, *widest - next)) : size_t{1};
    *widest -= step;
    sum -= step;
  }
}

bool IsNumeric(const Cell& cell) {
  return cell.kind() == CellKind::kInteger || cell.kind() == CellKind::kNumber;
}

std::string ScreenText(const Cell& cell, const TerminalOptions& options) {
  if (cell.kind() == CellKind::kText) {
    return InLanguage(cell.text(), options.language);
  }
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
    for (const std::string& column : table.columns()) {
      heads_.emplace_back(WordInLanguage(column, options.language));
    }
    Measure();
  }

  std::string Write() {
    if (options_.wrap && LineColumns() > options_.width) {
      return Records();
    }
    Line([&](size_t column) { return heads_[column]; }, kBold);
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
    for (const std::string& head : heads_) {
      label_width = std::max(label_width, ColumnsOf(head));
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
        AppendFitted(heads_[column], label_width, true, false, options_.ascii, label);
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
      widths_[column] = ColumnsOf(heads_[column]);
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
  std::vector<std::string> heads_;
  std::vector<size_t> widths_;
  std::vector<bool> right_;
  std::string out_;
};

}  // namespace

std::string TerminalTable(const Table& table, const TerminalOptions& options) {
  return TableWriter(table, options).Write();
}

namespace {

std::string Centred(std::string_view text, size_t width) {
  const size_t room = width - std::min(width, text.size());
  // An odd blank stands behind.
  return std::string(room / 2, ' ') + std::string(text) + std::string(room - room / 2, ' ');
}

}  // namespace

std::string RuledTable(const Table& table) {
  std::string rule = "+";
  std::vector<std::string> lines(table.row_count() + 1, "|");
  for (size_t column = 0; column < table.columns().size(); ++column) {
    size_t width = table.columns()[column].size();
    for (size_t row = 0; row < table.row_count(); ++row) {
      width = std::max(width, CellText(table.row(row)[column]).size());
    }
    rule += std::string(width + 2, '-') + "+";
    lines[0] += " " + Centred(table.columns()[column], width) + " |";
    for (size_t row = 0; row < table.row_count(); ++row) {
      lines[row + 1] += " " + Centred(CellText(table.row(row)[column]), width) + " |";
    }
  }
  const size_t inner = rule.size() - 2;
  std::string text = fmt::format("+{}+\n|{}|\n{}\n{}\n{}\n", std::string(inner, '-'),
                                 Centred(table.name(), inner), rule, lines[0], rule);
  for (size_t row = 1; row < lines.size(); ++row) {
    text += lines[row] + "\n";
  }
  return text + rule + "\n";
}

namespace {

using base::Plural;
using base::Printable;

constexpr size_t kLabelColumns = 12;   // of facts
constexpr size_t kFactColumn = 15;     // where their texts stand
constexpr size_t kAmountColumns = 12;  // of amounts
constexpr size_t kAmountColumn = 14;
constexpr size_t kNumberedColumn = 8;  // of the details of numbered items
constexpr size_t kLongestBar = 40;
constexpr size_t kFilesOneByOne = 16;
constexpr size_t kNotesShown = 20;

Ink InkOf(Tone tone) {
  constexpr std::array<Ink, 5> kInks = {Ink::kNone, Ink::kBold, Ink::kGreen, Ink::kYellow,
                                        Ink::kRed};
  return kInks[static_cast<size_t>(tone)];
}

class TerminalRenderer {
 public:
  TerminalRenderer(const Document& document, const ScreenOptions& options)
      : document_(document), screen_(options) {}

  std::string Run() {
    if (!document_.verdict.text.empty()) {
      Note(document_.verdict.tone);
      screen_.Line(InkOf(document_.verdict.tone), Said(document_.verdict.text));
    }
    for (const Section& section : document_.sections) {
      PutSection(section);
    }
    if (!document_.next.empty()) {
      screen_.Heading(Said("Next"));
      for (const Advice& advice : document_.next) {
        screen_.Paragraph(Ink::kNone, Printable(AdviceText(advice, screen_.options().language)));
      }
    }
    PutFiles();
    if (screen_.options().color && colors_used_) {
      screen_.Blank();
      screen_.Line(Ink::kNone, Said("red: a difference or a failure; yellow: worth a look"));
    }
    return screen_.Take();
  }

 private:
  std::string Said(std::string_view text) const {
    return Printable(InLanguage(text, screen_.options().language));
  }

  void Note(Tone tone) {
    colors_used_ = colors_used_ || tone == Tone::kCaution || tone == Tone::kBad;
  }

  static bool IsShown(const Block& block) {
    const auto briefly = [](const auto& content) {
      if constexpr (requires { content.display_limit; }) {
        return content.display_limit.items > 0 && !IsEmpty(content);
      }
      return true;
    };
    return std::visit(briefly, block);
  }

  void PutSection(const Section& section) {
    if (std::none_of(section.blocks.begin(), section.blocks.end(), IsShown)) {
      return;
    }
    if (!section.title.empty()) {
      screen_.Heading(Said(section.title));
    } else if (!screen_.empty() && !std::holds_alternative<Text>(section.blocks.front())) {
      screen_.Blank();
    }
    bool first = true;
    for (const Block& block : section.blocks) {
      if (IsShown(block)) {
        std::visit([&](const auto& content) { Put(content, first); }, block);
        first = false;
      }
    }
  }

  void Put(const Text& text, bool /*first*/) {
    Note(text.tone);
    screen_.Paragraph(InkOf(text.tone), Said(text.text));
  }

  void Put(const List& list, bool first) {
    const size_t shown = std::min(list.items.size(), list.display_limit.items);
    size_t label_width = 0;
    for (size_t i = 0; i < shown; ++i) {
      label_width = std::max(label_width, ColumnsOf(Said(list.items[i].label)));
    }
    for (size_t i = 0; i < shown; ++i) {
      PutItem(list, i, label_width, first);
    }
    PutRest(list.display_limit, list.items.size());
  }

  void PutItem(const List& list, size_t index, size_t label_width, bool first) {
    const Item& item = list.items[index];
    const std::string text = Said(item.text);
    std::string label = Said(item.label);
    Tone tone = item.tone;
    size_t indent = 2;  // of what is wrapped
    Note(tone);
    switch (list.kind) {
      case ListKind::kFacts:
        label = "  " + Filled(label, kLabelColumns);
        indent = kFactColumn;
        break;
      case ListKind::kAligned: {
        const size_t blanks = first ? 2 : 4;  // below other blocks a step deeper
        const size_t most = screen_.options().has_edge ? screen_.options().width / 2  //
                                                       : kMostFilledColumns;
        const size_t width = std::min(label_width, most);
        label = std::string(blanks, ' ') + Filled(label, width) + " ";
        indent = blanks + width + 2;
        break;
      }
      case ListKind::kAmounts:
        label.insert(0, kAmountColumns - std::min(kAmountColumns, ColumnsOf(label)), ' ');
        label += ' ';
        indent = kAmountColumn;
        break;
      case ListKind::kNamed:
        label = fmt::format("  {}{}", label, text.empty() ? "" : ":");
        indent = 6;
        break;
      case ListKind::kNumbered:
        label = fmt::format("{:>2}. {}:", index + 1, label);
        tone = tone == Tone::kPlain ? Tone::kStrong : tone;
        indent = 4;
        break;
      case ListKind::kBullets:
        label = "  -";
        indent = 4;
        break;
      case ListKind::kSentences:
        screen_.Line(InkOf(tone), "  " + text, 6);
        return;
      case ListKind::kChecks:
        break;
    }
    screen_.Labelled(InkOf(tone), label, text, indent);
    for (const Item& detail : item.details) {
      PutDetail(list.kind, Said(detail.label), Said(detail.text));
    }
  }

  void PutDetail(ListKind kind, const std::string& label, const std::string& text) {
    if (kind == ListKind::kFacts) {
      screen_.Labelled(Ink::kNone, "  " + Filled("", kLabelColumns), text, kFactColumn);
    } else if (kind == ListKind::kAmounts) {
      screen_.Line(Ink::kNone, std::string(kAmountColumn, ' ') + text, kAmountColumn);
    } else if (kind == ListKind::kNumbered) {
      screen_.Labelled(Ink::kNone, fmt::format("    {:>3}", label.empty() ? "-" : label), text,
                       kNumberedColumn);
    }
  }

  static std::string Filled(std::string text, size_t columns) {
    const size_t used = ColumnsOf(text);
    text.append(columns > used ? columns - used : 0, ' ');
    return text;
  }

  // Names keep their end, and reasons stand below the rows.
  void PutNamedRows(const DataTable& data, TerminalOptions table) {
    const bool has_edge = screen_.options().has_edge;
    ScreenView view = ForScreen(data.table, has_edge ? table.width : 0, screen_.options().ascii);
    if (view.width > table.width) {  // every cell will have a line of its own
      view = ForScreen(data.table, 0);
    }
    table.narrowest = SIZE_MAX;
    screen_.Raw(TerminalTable(view.table, table));
    for (size_t i = 0; i < std::min(view.notes.size(), kNotesShown); ++i) {
      screen_.Line(Ink::kNone, Said(view.notes[i]));
    }
    if (view.notes.size() > kNotesShown) {
      screen_.Line(Ink::kNone,
                   Said(fmt::format("and {} with a note",
                                    Plural(view.notes.size() - kNotesShown, "more row"))));
    }
  }

  void Put(const DataTable& data, bool /*first*/) {
    const ScreenOptions& options = screen_.options();
    TerminalOptions table;
    table.width = options.has_edge ? options.width : SIZE_MAX;
    table.color = options.color;
    table.digits = data.digits;
    table.decimals = data.decimals;
    table.wrap = options.has_edge;
    table.ascii = options.ascii;
    table.language = options.language;
    table.rows = data.display_limit.items;
    table.amounts = data.amounts;
    if (data.names_rows) {
      PutNamedRows(data, table);
      return;
    }
    screen_.Raw(TerminalTable(data.table, table));
    PutRest(data.display_limit, data.table.row_count());
  }

  void Put(const Bars& bars, bool /*first*/) {
    const ScreenOptions& options = screen_.options();
    const size_t shown = std::min(bars.items.size(), bars.display_limit.items);
    double largest = 0;
    size_t name_width = 0;
    for (size_t i = 0; i < shown; ++i) {
      const Bar& bar = bars.items[i];
      largest = std::isfinite(bar.value) ? std::max(largest, bar.value) : largest;
      name_width = std::max(name_width, ColumnsOf(Said(bar.label)));
    }
    constexpr size_t kFigures = 10;
    constexpr size_t kGaps = 6;
    const size_t most =
        options.has_edge ? options.width / 2 : std::min(name_width, kMostFilledColumns);
    const bool in_one_line = name_width <= most;
    const size_t taken = (in_one_line ? name_width : most) + kFigures + kGaps;
    const size_t room = options.width > taken ? options.width - taken : 1;
    const size_t longest = options.has_edge ? std::min(room, kLongestBar) : kLongestBar;
    for (size_t i = 0; i < shown; ++i) {
      const Bar& bar = bars.items[i];
      const std::string label = Said(bar.label);
      const double share = std::isfinite(bar.value) && largest > 0 ? bar.value / largest : 0;
      const auto length = static_cast<size_t>(std::ceil(share * static_cast<double>(longest)));
      // A name that is too long has a line of its own, its figures the next one.
      const bool fits = ColumnsOf(label) <= std::min(name_width, most);
      std::string line = "  ";
      if (!fits) {
        screen_.Line(Ink::kNone, "  " + label, 4);
      }
      line += Filled(fits ? label : "", std::min(name_width, most)) + "  ";
      line +=
          fmt::format("{:<{}}  {}", NumberText(bar.value, 3), kFigures, std::string(length, '#'));
      line.erase(line.find_last_not_of(' ') + 1);
      screen_.Raw(line + "\n");
    }
    PutRest(bars.display_limit, bars.items.size());
  }

  // A line per curve: where it begins, its lowest point and its end.
  void Put(const Curves& curves, bool /*first*/) {
    const size_t shown = std::min(curves.items.size(), curves.display_limit.items);
    for (size_t i = 0; i < shown; ++i) {
      const std::vector<double>& values = curves.items[i].values;
      std::string text;
      const auto point = [&](std::string_view what, size_t at) {
        text +=
            fmt::format("{}{} {} at {} {}", text.empty() ? "" : ", ", what,
                        NumberText(values[at], 4), curves.axis, Printable(curves.positions[at]));
      };
      const auto is_number = [](double value) { return !std::isnan(value); };
      const auto first = std::find_if(values.begin(), values.end(), is_number);
      if (first == values.end()) {
        text = "no values";
      } else {
        size_t lowest = static_cast<size_t>(first - values.begin());
        size_t last = lowest;
        point("first", lowest);
        for (size_t at = lowest; at < values.size(); ++at) {
          lowest = values[at] < values[lowest] ? at : lowest;
          last = is_number(values[at]) ? at : last;
        }
        point("lowest", lowest);
        point("last", last);
      }
      screen_.Labelled(Ink::kNone, "  " + Said(curves.items[i].label) + ":", Said(text), 6);
    }
    PutRest(curves.display_limit, curves.items.size());
  }

  void PutRest(const DisplayLimit& limit, size_t all) {
    if (all <= limit.items || !limit.counts_rest) {
      return;
    }
    screen_.Line(Ink::kNone,
                 "  " + Said(limit.rest.empty()
                                 ? fmt::format("and {} more", base::FormatCount(all - limit.items))
                                 : limit.rest));
  }

  void PutFiles() {
    if (document_.files.empty()) {
      return;
    }
    std::string heading = "Files";
    if (document_.seconds > 0) {
      heading += fmt::format(" ({}{} in {})",
                             document_.bytes > 0 ? base::FormatBytes(document_.bytes) + " " : "",
                             document_.action, base::FormatSeconds(document_.seconds));
    }
    screen_.Heading(Said(heading));
    // A file with a description of its own (summary, page) always has a line. Tables of hundreds of
    // ranks would push the answer out of sight: one line per folder counts them; --json names them.
    const auto is_table = [](const OutputFile& file) { return file.what.empty(); };
    const bool counts = std::count_if(document_.files.begin(), document_.files.end(), is_table) >
                        static_cast<std::ptrdiff_t>(kFilesOneByOne);
    std::map<std::string, std::map<std::string, size_t>> folders;  // of them the endings
    for (const OutputFile& file : document_.files) {
      if (counts && is_table(file)) {
        ++folders[file.path.parent_path().string()][file.path.extension().string()];
      } else {
        screen_.Raw(fmt::format("  {}\n", Printable(file.path.string())));
      }
    }
    size_t named = 0;
    size_t left = 0;
    for (const auto& [folder, endings] : folders) {
      std::vector<std::string> texts;
      size_t files = 0;
      for (const auto& [ending, count] : endings) {
        files += count;
        texts.push_back(
            fmt::format("{} {}", base::FormatCount(count), ending.empty() ? "others" : ending));
      }
      if (++named > kFilesOneByOne) {
        left += files;
        continue;
      }
      screen_.Raw(fmt::format("  {}/  ({})\n", Printable(folder.empty() ? "." : folder),
                              Printable(base::Join(texts, ", "))));
    }
    if (left > 0) {
      screen_.Line(Ink::kNone,
                   Said(fmt::format("  and {} in other folders", Plural(left, "more file"))));
    }
  }

  const Document& document_;
  Screen screen_;
  bool colors_used_ = false;
};

}  // namespace

namespace {

// What a terminal can open: lines of code, and files that were written.
class Links {
 public:
  explicit Links(const Document& document) {
    for (const Section& section : document.sections) {
      for (const Block& block : section.blocks) {
        if (const List* const list = std::get_if<List>(&block)) {
          Collect(list->items);
        }
      }
    }
    for (const OutputFile& file : document.files) {
      Add(base::Printable(file.path.string()), file.path, 0);
    }
  }

  // Marks the places where they stand whole; one that a line break cuts is not a link.
  std::string Mark(std::string text, std::string_view host) const {
    std::string marked;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      std::string line = text.substr(begin, end - begin);
      begin = end;
      for (const Link& link : links_) {
        const size_t at = PlaceOf(link.text, line);
        if (at == std::string::npos) {
          continue;
        }
        line.replace(at, link.text.size(),
                     fmt::format("\x1b]8;;file://{}{}{}\x1b\\{}\x1b]8;;\x1b\\", host, link.uri,
                                 link.line > 0 ? fmt::format("#{}", link.line) : "", link.text));
        break;
      }
      marked += line;
    }
    return marked;
  }

 private:
  struct Link {
    std::string text;  // as the screen shows it
    std::string uri;   // the absolute path, percent-encoded
    uint64_t line;
  };

  // "\x1b[31m"
  static bool EndsInColor(std::string_view text) {
    const size_t escape = text.rfind('\x1b');
    return escape != std::string_view::npos && text.substr(escape).starts_with("\x1b[") &&
           text.find_first_not_of("0123456789;", escape + 2) == text.size() - 1;
  }

  // Where `text` stands by itself, not as a part of another name or number; npos: nowhere.
  static size_t PlaceOf(std::string_view text, std::string_view line) {
    const auto goes_on = [](char c) {
      return base::IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
             c == '-' || c == '/' || c == '.' || static_cast<unsigned char>(c) >= 0x80;
    };
    for (size_t at = line.find(text); at != std::string_view::npos; at = line.find(text, at + 1)) {
      const size_t end = at + text.size();
      const bool is_sentence = end < line.size() && line[end] == '.' &&
                               (end + 1 == line.size() || !goes_on(line[end + 1]));
      if ((at == 0 || !goes_on(line[at - 1]) || EndsInColor(line.substr(0, at))) &&
          (end >= line.size() || !goes_on(line[end]) || is_sentence)) {
        return at;
      }
    }
    return std::string_view::npos;
  }

  void Collect(const std::vector<Item>& items) {
    for (const Item& item : items) {
      if (item.source && item.source->line > 0) {
        Add(base::Printable(fmt::format("{}:{}", item.source->file, item.source->line)),
            item.source->file, item.source->line);
      }
      Collect(item.details);
    }
  }

  // Files of another host are not linked, nor is a result called "a", which is a word.
  void Add(std::string text, const std::filesystem::path& path, uint64_t line) {
    std::error_code failure;
    if (text.find_first_of("/.") == std::string::npos || !std::filesystem::exists(path, failure)) {
      return;
    }
    std::string uri;
    for (const char c : std::filesystem::absolute(path, failure).string()) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') ||
                         std::string_view("/._-~").find(c) != std::string_view::npos;
      uri += plain ? std::string(1, c)
                   : fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
    if (!failure) {
      links_.push_back({std::move(text), std::move(uri), line});
    }
  }

  std::vector<Link> links_;
};

}  // namespace

std::string RenderTerminal(const Document& document, const ScreenOptions& options) {
  std::string text = TerminalRenderer(document, options).Run();
  return options.link_host.empty() ? text
                                   : Links(document).Mark(std::move(text), options.link_host);
}

}  // namespace msprobe::report
