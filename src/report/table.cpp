#include "src/report/table.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "src/base/number_text.h"

namespace msprobe::report {

Cell Cell::Text(std::string_view text) {
  Cell cell;
  cell.kind_ = CellKind::kText;
  cell.text_ = text.data();
  cell.length_ = static_cast<uint32_t>(std::min<size_t>(text.size(), UINT32_MAX));
  return cell;
}

Cell Cell::Integer(int64_t value) {
  Cell cell;
  cell.kind_ = CellKind::kInteger;
  cell.integer_ = value;
  return cell;
}

Cell Cell::Number(double value) {
  Cell cell;
  cell.kind_ = CellKind::kNumber;
  cell.number_ = value;
  return cell;
}

std::string_view TextArena::Keep(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  if (text.size() > left_) {
    // A text larger than a chunk gets a chunk of its own; the current one goes on being filled.
    if (text.size() > kChunkBytes / 4) {
      chunks_.push_back(std::make_unique<char[]>(text.size()));
      std::memcpy(chunks_.back().get(), text.data(), text.size());
      return {chunks_.back().get(), text.size()};
    }
    chunks_.push_back(std::make_unique<char[]>(kChunkBytes));
    next_ = chunks_.back().get();
    left_ = kChunkBytes;
  }
  char* const kept = next_;
  std::memcpy(kept, text.data(), text.size());
  next_ += text.size();
  left_ -= text.size();
  return {kept, text.size()};
}

Table::Table(std::string name, std::vector<std::string> columns)
    : name_(std::move(name)), columns_(std::move(columns)) {}

std::span<const Cell> Table::row(size_t index) const {
  return {cells_.data() + index * columns_.size(), columns_.size()};
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
  switch (cell.kind()) {
    case CellKind::kEmpty:
      return "";
    case CellKind::kText:
      return std::string(cell.text());
    case CellKind::kInteger:
      return std::to_string(cell.integer());
    case CellKind::kNumber:
      break;
  }
  std::string text;
  base::AppendGeneral(cell.number(), 16, text);
  return text;
}

}  // namespace msprobe::report
