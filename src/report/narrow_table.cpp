#include "src/report/narrow_table.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::report {
namespace {

constexpr size_t kColumnGap = 2;  // blanks between columns
constexpr size_t kShortestName = 30;
constexpr std::string_view kNoteColumn = "Note";
constexpr std::string_view kFileColumn = "File";
// What goes first where there is no room: a file is named like its row, the others matter rarely.
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

}  // namespace msprobe::report
