#include "src/report/table.h"

#include <algorithm>
#include <bit>
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

namespace {

constexpr size_t kBlockCells = size_t{1} << 13U;  // 128 KiB

}  // namespace

Table::Table(std::string name, std::vector<std::string> columns)
    : name_(std::move(name)),
      columns_(std::move(columns)),
      block_shift_(static_cast<unsigned>(
          std::bit_width(std::max<size_t>(kBlockCells / std::max<size_t>(columns_.size(), 1), 1)) -
          1)) {}

Table::Table(std::string name, std::vector<std::string> columns, size_t row_count,
             uint64_t text_bytes, AddRows add)
    : name_(std::move(name)),
      columns_(std::move(columns)),
      add_rows_(std::move(add)),
      made_row_count_(row_count),
      text_bytes_(text_bytes) {}

Table::Rows Table::Block(size_t first, size_t count, Table& scratch) const {
  if (!add_rows_) {
    return {*this, first};
  }
  if (scratch.columns_.size() != columns_.size()) {
    scratch = Table(name_, columns_);
  }
  scratch.blocks_.clear();
  scratch.fills_.clear();
  scratch.arena_ = std::make_unique<TextArena>();
  add_rows_(first, count, scratch);
  return {scratch, 0};
}

std::span<const Cell> Table::row(size_t index) const {
  const size_t in_block = index & ((size_t{1} << block_shift_) - 1);
  return std::span<const Cell>(blocks_[index >> block_shift_])
      .subspan(in_block * columns_.size(), columns_.size());
}

void Table::Reserve(size_t rows) {
  blocks_.reserve((rows >> block_shift_) + 1);
  fills_.reserve(rows);
}

void Table::AddRow(std::span<const Cell> cells, Fill fill) {
  assert(cells.size() == columns_.size());
  if (fills_.size() >> block_shift_ == blocks_.size()) {
    blocks_.emplace_back();
    if (blocks_.size() > 1) {  // the first one of a small table stays small
      blocks_.back().reserve(columns_.size() << block_shift_);
    }
  }
  blocks_.back().insert(blocks_.back().end(), cells.begin(), cells.end());
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
