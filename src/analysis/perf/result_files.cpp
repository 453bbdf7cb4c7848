#include "src/analysis/perf/result_files.h"

#include <array>
#include <cmath>
#include <ctime>
#include <span>

#include <fmt/format.h>

#include "src/report/writers.h"

namespace msprobe::analysis::perf {
namespace {

namespace fs = std::filesystem;

std::string UtcStamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 16> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y%m%d%H%M%S", &parts);
  return {text.data(), length};
}

fs::path With(const fs::path& stem, std::string_view ending) {
  fs::path path = stem;
  path += ending;
  return path;
}

// In a workbook the row of titles tells the sides apart; here the names must, where they repeat.
std::vector<std::string> PlainColumns(const report::FormattedTable& sheet) {
  constexpr std::array<std::string_view, 2> kSides = {"Base ", "Comparison "};
  std::vector<std::string> columns = sheet.table.columns();
  for (size_t side = 0; side < std::min(kSides.size(), sheet.titles.size()); ++side) {
    const report::TitleCell& title = sheet.titles[side];
    for (size_t column = title.first_column; column <= title.last_column; ++column) {
      if (column < columns.size() && !columns[column].starts_with(kSides[side])) {
        columns[column].insert(0, kSides[side]);
      }
    }
  }
  return columns;
}

// Borrows the texts of `sheet`.
report::Table PlainTable(const report::FormattedTable& sheet) {
  report::Table plain(sheet.table.name(), PlainColumns(sheet));
  plain.Reserve(sheet.table.row_count());
  std::vector<report::Cell> cells;
  for (size_t row = 0; row < sheet.table.row_count(); ++row) {
    const std::span<const report::Cell> source = sheet.table.row(row);
    cells.assign(source.begin(), source.end());
    for (report::Cell& cell : cells) {
      if (cell.kind() == report::CellKind::kNumber && !std::isfinite(cell.number())) {
        cell = report::Cell::Text("INF");
      }
    }
    plain.AddRow(cells);
  }
  return plain;
}

}  // namespace

Result<base::RunStamp> TakeStamp(const fs::path& folder, const base::ProcessShare& share) {
  const std::string time = UtcStamp();
  if (share.index == 0) {
    return base::RunStamp::Take(folder, time);
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  return base::RunStamp::Shared(time);
}

fs::path ResultStem(const fs::path& folder, const std::string& stamp,
                    const std::optional<int64_t>& rank) {
  return folder / fmt::format("performance_comparison_result_{}{}", stamp,
                              rank.has_value() ? fmt::format("_rank{}", *rank) : "");
}

Result<std::vector<fs::path>> WriteResultFiles(const PairComparison& comparison,
                                               const fs::path& stem, const ResultFormats& formats,
                                               base::ThreadPool& pool) {
  std::vector<fs::path> written;
  if (formats.xlsx && !comparison.sheets.empty()) {
    std::vector<const report::FormattedTable*> sheets;
    for (const report::FormattedTable& sheet : comparison.sheets) {
      sheets.push_back(&sheet);
    }
    written.push_back(With(stem, ".xlsx"));
    MSP_RETURN_IF_ERROR(report::WriteFormattedXlsx(written.back(), sheets, pool));
  }
  // The workbook holds the Python tool's sheets and no more.
  if (comparison.kernel_table.table.row_count() > 0 && (formats.xlsx || formats.csv)) {
    written.push_back(With(stem, "_Kernels.csv"));
    MSP_RETURN_IF_ERROR(report::WriteCsv(written.back(), PlainTable(comparison.kernel_table)));
  }
  if (comparison.kernel_table.table.row_count() > 0 && formats.json) {
    written.push_back(With(stem, "_Kernels.jsonl"));
    MSP_RETURN_IF_ERROR(
        report::WriteJsonLines(written.back(), PlainTable(comparison.kernel_table)));
  }
  if (!formats.csv && !formats.json) {
    return written;
  }
  for (const report::FormattedTable& sheet : comparison.sheets) {
    const report::Table plain = PlainTable(sheet);
    const fs::path sheet_stem = With(stem, "_" + plain.name());
    if (formats.csv) {
      written.push_back(With(sheet_stem, ".csv"));
      MSP_RETURN_IF_ERROR(report::WriteCsv(written.back(), plain));
    }
    if (formats.json) {
      written.push_back(With(sheet_stem, ".jsonl"));
      MSP_RETURN_IF_ERROR(report::WriteJsonLines(written.back(), plain));
    }
  }
  return written;
}

}  // namespace msprobe::analysis::perf
