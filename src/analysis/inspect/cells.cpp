#include "src/analysis/inspect/cells.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "src/base/number_text.h"
#include "src/base/strings.h"

namespace msprobe::analysis {

report::Cell CountCell(uint64_t count) {
  return report::Cell::Integer(static_cast<int64_t>(std::min<uint64_t>(count, INT64_MAX)));
}

report::Cell FlagCell(bool value) { return report::Cell::Text(value ? "true" : "false"); }

report::Cell NumberCell(double value) {
  if (std::isnan(value)) {
    return report::Cell::Text("nan");
  }
  if (std::isinf(value)) {
    return report::Cell::Text(value > 0 ? "inf" : "-inf");
  }
  return report::Cell::Number(value);
}

std::string Shortened(std::string_view text, size_t limit) {
  if (text.size() <= limit) {
    return std::string(text);
  }
  size_t end = limit;
  // Bytes 10xxxxxx continue a character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string Counted(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", base::FormatCount(count), noun, count == 1 ? "" : "s");
}

bool RowFilter::Matches(std::string_view name) const {
  return options_.name_filter.empty() || base::GlobMatch(options_.name_filter, name);
}

bool RowFilter::TakePlace() {
  if (options_.row_limit > 0 && taken_ >= options_.row_limit) {
    ++result_.rows_left_out;
    return false;
  }
  ++taken_;
  return true;
}

report::Table ForScreen(const report::Table& table) {
  constexpr int kDigits = 6;
  std::vector<size_t> used;
  std::vector<std::string> names;
  for (size_t column = 0; column < table.columns().size(); ++column) {
    bool has_cell = table.row_count() == 0;
    for (size_t row = 0; row < table.row_count() && !has_cell; ++row) {
      const report::Cell& cell = table.row(row)[column];
      has_cell = cell.kind() != report::CellKind::kEmpty;
    }
    if (has_cell) {
      used.push_back(column);
      names.push_back(table.columns()[column]);
    }
  }
  report::Table narrow(table.name(), std::move(names));
  narrow.Reserve(table.row_count());
  std::vector<report::Cell> cells(used.size());
  std::string text;
  for (size_t row = 0; row < table.row_count(); ++row) {
    for (size_t i = 0; i < used.size(); ++i) {
      cells[i] = table.row(row)[used[i]];
      if (cells[i].kind() == report::CellKind::kNumber) {
        text.clear();
        base::AppendGeneral(cells[i].number(), kDigits, text);
        cells[i] = narrow.KeepText(text);
      } else if (cells[i].kind() == report::CellKind::kText) {
        cells[i] = narrow.KeepText(cells[i].text());
      }
    }
    narrow.AddRow(cells, table.fill(row));
  }
  return narrow;
}

}  // namespace msprobe::analysis
