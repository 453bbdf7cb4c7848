#include "src/analysis/accuracy/common/details_file.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/report/readers.h"

namespace msprobe::analysis::accuracy {
namespace {

constexpr size_t kMissing = SIZE_MAX;

// What a comparison cannot do without.
constexpr size_t kRequired[] = {
    detail_column::kApiName,      detail_column::kDeviceDtype, detail_column::kSmallValue,
    detail_column::kRmse,         detail_column::kMaxRelative, detail_column::kMeanRelative,
    detail_column::kErrorBalance, detail_column::kErrorRate,   detail_column::kInfNan,
    detail_column::kRelative,     detail_column::kAbsolute,    detail_column::kUlpMean,
    detail_column::kUlpShare,     detail_column::kThousandth};

}  // namespace

Result<DetailsFile> DetailsFile::Make(report::Table table) {
  DetailsFile file;
  const std::vector<std::string>& names = table.columns();
  for (size_t column = 0; column < detail_column::kCount; ++column) {
    const ColumnName& name = kDetailColumns[column];
    const auto place = std::find_if(names.begin(), names.end(), [&](const std::string& text) {
      return text == name.chinese || text == name.english;
    });
    file.places_[column] =
        place == names.end() ? kMissing : static_cast<size_t>(place - names.begin());
  }
  std::string missing;
  for (const size_t column : kRequired) {
    if (file.places_[column] == kMissing) {
      missing += (missing.empty() ? "" : ", ") + std::string(kDetailColumns[column].chinese);
    }
  }
  if (!missing.empty()) {
    return BadFormatError(fmt::format("it lacks columns: {}", missing))
        .WithHint("give an accuracy_checking_details_*.csv, not a result file");
  }
  file.table_ = std::move(table);
  return file;
}

Result<DetailsFile> DetailsFile::Read(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(report::Table table, report::ReadCsv(path));
  Result<DetailsFile> file = Make(std::move(table));
  if (!file.ok()) {
    return std::move(file).status().AddContext(base::Printable(path.string()));
  }
  return file;
}

Result<DetailsFile> DetailsFile::ReadText(std::string_view text) {
  MSP_ASSIGN_OR_RETURN(report::Table table, report::ReadCsvText(text, "details"));
  return Make(std::move(table));
}

std::array<std::string_view, detail_column::kCount> DetailsFile::row(size_t index) const {
  std::array<std::string_view, detail_column::kCount> cells;
  cells.fill(kBlank);
  const std::span<const report::Cell> row = table_.row(index);
  for (size_t column = 0; column < detail_column::kCount; ++column) {
    if (places_[column] < row.size() && row[places_[column]].kind() == report::CellKind::kText) {
      cells[column] = row[places_[column]].text();
    }
  }
  return cells;
}

}  // namespace msprobe::analysis::accuracy
