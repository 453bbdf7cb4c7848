#include "src/report/table.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "src/base/numbers.h"

namespace msprobe::report {

std::string NumberText(double value, int digits) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "Infinity" : "-Infinity";
  }
  std::string text;
  base::AppendGeneral(value, digits, text);
  return text;
}

Cell Cell::Text(std::string_view text) {
  Cell cell;
  cell.text_ = text.data();
  // No writer takes more than a cell of a spreadsheet; a length of 32 bits keeps cells small.
  cell.length_ =
      static_cast<uint32_t>(std::min<size_t>(text.size(), std::numeric_limits<uint32_t>::max()));
  cell.kind_ = CellKind::kText;
  return cell;
}

Table::Table(std::string name, std::vector<std::string> columns)
    : name_(std::move(name)), columns_(std::move(columns)) {}

std::span<const Cell> Table::row(size_t index) const {
  return std::span<const Cell>(cells_).subspan(index * columns_.size(), columns_.size());
}

void Table::Reserve(size_t rows) {
  cells_.reserve(rows * columns_.size());
  fills_.reserve(rows);
}

void Table::AddRow(std::span<const Cell> cells, Fill fill) {
  assert(cells.size() == columns_.size());
  cells_.insert(cells_.end(), cells.begin(), cells.end());
  fills_.push_back(fill);
}

std::string CellText(const Cell& cell) {
  std::string text;
  switch (cell.kind()) {
    case CellKind::kEmpty:
      break;
    case CellKind::kText:
      text = cell.text();
      break;
    case CellKind::kInteger:
      text = std::to_string(cell.integer());
      break;
    case CellKind::kNumber:
      base::AppendGeneral(cell.number(), 16, text);
      break;
    case CellKind::kBoolean:
      text = cell.boolean_text();
      break;
  }
  return text;
}

}  // namespace msprobe::report
