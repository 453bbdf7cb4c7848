#include "src/profile/csv_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/base/number_text.h"
#include "src/base/strings.h"

namespace msprobe::profile {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kMostColumns = 4096;

}  // namespace

Result<CsvRows> CsvRows::Open(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(base::FileBytes file, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(CsvRows rows, FromText(file.text(), path.string()));
  rows.file_ = std::move(file);
  return rows;
}

Result<CsvRows> CsvRows::FromText(std::string_view text, std::string name) {
  CsvRows rows;
  rows.name_ = std::move(name);
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  rows.text_ = text;
  MSP_RETURN_IF_ERROR(rows.ReadCells(kMostColumns));
  for (const std::string_view cell : rows.cells_) {
    rows.columns_.emplace_back(base::Trim(cell));
  }
  rows.cells_.clear();
  return rows;
}

size_t CsvRows::Find(std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  return found == columns_.end() ? kNoColumn : static_cast<size_t>(found - columns_.begin());
}

std::vector<std::string> CsvRows::Missing(std::initializer_list<std::string_view> columns) const {
  std::vector<std::string> missing;
  for (const std::string_view column : columns) {
    if (Find(column) == kNoColumn) {
      missing.emplace_back(column);
    }
  }
  return missing;
}

Result<bool> CsvRows::Next() {
  while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) {
    next_line_ += text_[at_] == '\n' ? 1 : 0;
    ++at_;
  }
  if (at_ == text_.size()) {
    return false;
  }
  MSP_RETURN_IF_ERROR(ReadCells(columns_.size()));
  return true;
}

std::string_view CsvRows::operator[](size_t column) const {
  return column < cells_.size() ? base::Trim(cells_[column]) : std::string_view();
}

// One line; of its cells `most` are kept.
Status CsvRows::ReadCells(size_t most) {
  line_ = next_line_;
  cells_.clear();
  unquoted_used_ = 0;
  while (at_ < text_.size()) {
    std::string_view cell;
    if (text_[at_] == '"') {
      MSP_RETURN_IF_ERROR(ReadQuoted(cell));
    } else {
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') {
        ++at_;
      }
      cell = text_.substr(begin, at_ - begin);
    }
    if (cells_.size() < most) {
      cells_.push_back(cell);
    }
    if (at_ == text_.size() || text_[at_] != ',') {
      break;
    }
    ++at_;
  }
  if (at_ < text_.size() && text_[at_] == '\r') {
    ++at_;
  }
  if (at_ < text_.size() && text_[at_] == '\n') {
    ++at_;
    ++next_line_;
  }
  return {};
}

// The text between the quotes, and whatever stands behind them: blanks, mostly.
Status CsvRows::ReadQuoted(std::string_view& cell) {
  const size_t begin = ++at_;
  size_t quote = text_.find('"', at_);
  if (quote != std::string_view::npos && (quote + 1 == text_.size() || text_[quote + 1] == ',' ||
                                          text_[quote + 1] == '\n' || text_[quote + 1] == '\r')) {
    cell = text_.substr(begin, quote - begin);
    next_line_ += static_cast<uint64_t>(std::count(cell.begin(), cell.end(), '\n'));
    at_ = quote + 1;
    return {};
  }
  if (unquoted_used_ == unquoted_.size()) {
    unquoted_.emplace_back();
  }
  std::string& joined = unquoted_[unquoted_used_++];
  joined.clear();
  while (quote != std::string_view::npos) {
    joined += text_.substr(at_, quote - at_);
    at_ = quote + 1;
    if (at_ == text_.size() || text_[at_] != '"') {
      break;
    }
    joined += '"';
    ++at_;
    quote = text_.find('"', at_);
  }
  if (quote == std::string_view::npos) {
    return BadFormatError(fmt::format("{} line {}: a quoted cell does not end", name_, line_));
  }
  next_line_ += static_cast<uint64_t>(std::count(joined.begin(), joined.end(), '\n'));
  const size_t rest = std::min(text_.find_first_of(",\r\n", at_), text_.size());
  joined += text_.substr(at_, rest - at_);
  at_ = rest;
  cell = joined;
  return {};
}

double CsvNumbers::Number(size_t column, std::string_view column_name) {
  const std::optional<double> number = base::ParseDouble(rows_[column]);
  if (!number.has_value() || !std::isfinite(*number)) {
    Note(column_name);
    return 0;
  }
  return *number;
}

double CsvNumbers::NumberOrNan(size_t column, std::string_view column_name) {
  const std::string_view cell = rows_[column];
  if (cell.empty() || cell == "N/A") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return Number(column, column_name);
}

void CsvNumbers::Note(std::string_view column_name) {
  for (Bad& bad : bad_) {
    if (bad.column == column_name) {
      ++bad.count;
      return;
    }
  }
  bad_.push_back({column_name, rows_.line(), 1});
}

void CsvNumbers::Warn(std::vector<std::string>& warnings) const {
  for (const Bad& bad : bad_) {
    warnings.push_back(fmt::format("{} line {}: no number in column {} ({}); counts as 0",
                                   rows_.name(), bad.first_line, bad.column,
                                   base::Plural(bad.count, "row")));
  }
}

}  // namespace msprobe::profile
