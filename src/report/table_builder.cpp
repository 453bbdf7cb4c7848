#include "src/report/table_builder.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/report/sheet_xml.h"

namespace msprobe::report::internal {
namespace {

// JSON repeats the names of columns in every row: so long may they be on average, and beyond that
// come to so much in all rows.
constexpr size_t kNameBytesPerCell = 64;
constexpr size_t kMostNameBytes = size_t{64} << 20U;

}  // namespace

void TableBuilder::Add(size_t column, const Cell& cell) {
  cells_.push_back({cell, static_cast<uint32_t>(column)});
  width_ = std::max(width_, column + 1);
}

void TableBuilder::EndRow() { row_ends_.push_back(cells_.size()); }

Result<Table> TableBuilder::Finish(std::string name) {
  if (row_ends_.empty()) {
    return Table(std::move(name), {});
  }
  if (full() || (width_ > 0 && row_ends_.size() > left_.cells / width_)) {
    return UnsupportedError(fmt::format("{} rows of {} columns are more than {} cells",
                                        row_ends_.size(), width_, left_.cells));
  }
  const size_t all = row_ends_.size() * width_;
  const size_t free = cells_.size() * (1 + ReadLimits::kGapsPerCell);
  const size_t gaps = all - std::min(all, free);
  if (gaps > left_.gaps) {
    return UnsupportedError(fmt::format("{} rows of {} columns with only {} cells in them",
                                        row_ends_.size(), width_, cells_.size()))
        .WithHint("a row is much longer than the others: correct it, or leave it out");
  }
  size_t name_bytes = 0;
  for (size_t at = 0; at < row_ends_[0]; ++at) {
    name_bytes += cells_[at].cell.text().size();
  }
  const size_t usual = kNameBytesPerCell * width_;
  if (name_bytes > usual && row_ends_.size() > kMostNameBytes / (name_bytes - usual)) {
    return UnsupportedError(fmt::format("{} rows below names of columns that have {} bytes",
                                        row_ends_.size(), name_bytes))
        .WithHint("results repeat the names in every row: shorten them");
  }
  left_.cells -= all;
  left_.gaps -= gaps;
  std::vector<std::string> columns(width_);
  for (size_t column = 0; column < width_; ++column) {
    columns[column] = fmt::format("Column {}", ColumnName(column));
  }
  size_t at = 0;
  for (; at < row_ends_[0]; ++at) {
    columns[cells_[at].column] = CellText(cells_[at].cell);
  }
  Table table(std::move(name), std::move(columns));
  table.KeepAlive(texts_);
  table.Reserve(row_ends_.size() - 1);
  std::vector<Cell> row(width_);
  for (size_t index = 1; index < row_ends_.size(); ++index) {
    std::fill(row.begin(), row.end(), Cell());
    for (; at < row_ends_[index]; ++at) {
      row[cells_[at].column] = cells_[at].cell;
    }
    table.AddRow(row);
  }
  return table;
}

}  // namespace msprobe::report::internal
