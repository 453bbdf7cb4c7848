#include "src/profile/ascend_text/csv_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::profile {

Result<CsvRows> CsvRows::Open(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(base::FileBytes file, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(CsvRows rows, FromText(file.text(), path.string()));
  rows.file_ = std::move(file);
  return rows;
}

Result<CsvRows> CsvRows::FromText(std::string_view text, std::string name) {
  CsvRows rows(base::WithoutByteOrderMark(text), std::move(name));
  MSP_RETURN_IF_ERROR(rows.ReadRow().status());
  for (const std::string_view cell : rows.tokenizer_.fields()) {
    rows.columns_.emplace_back(base::Trim(cell));
  }
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
  tokenizer_.SkipEmptyLines();
  return ReadRow();
}

Result<bool> CsvRows::ReadRow() {
  switch (tokenizer_.Next()) {
    case base::CsvTokenizer::Row::kFields:
      return true;
    case base::CsvTokenizer::Row::kEnd:
      return false;
    case base::CsvTokenizer::Row::kOpenQuote:
    case base::CsvTokenizer::Row::kTextAfterQuote:
      break;
  }
  return BadFormatError(fmt::format("{} line {}: unterminated quoted cell", name_, line()));
}

std::string_view CsvRows::operator[](size_t column) const {
  const std::span<const std::string_view> cells = tokenizer_.fields();
  return column < std::min(cells.size(), columns_.size()) ? base::Trim(cells[column])
                                                          : std::string_view();
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
