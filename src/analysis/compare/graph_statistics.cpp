#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "src/analysis/compare/graph_rows.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/report/readers.h"

namespace msprobe::analysis::compare {
namespace {

using report::Cell;

constexpr size_t kLeastColumns = 13;
// Places of the columns that identify a row; the others are found by name.
constexpr std::array<size_t, 4> kKeyColumns = {1, 2, 5, 6};  // operator, task, direction, slot
constexpr size_t kTimeColumn = 4;
constexpr std::array<std::string_view, kStatCount> kGraphStatColumns = {
    "Max Value", "Min Value", "Avg Value", "L2Norm Value"};
constexpr float kNoStatistic = std::numeric_limits<float>::quiet_NaN();

struct StatisticRows {
  report::Table table;  // keeps the texts
  std::string path;     // of the csv
  std::vector<KernelKey> keys;
  std::vector<std::string_view> dtypes;
  std::vector<std::string_view> shapes;
  std::vector<std::array<float, kStatCount>> stats;
};

float ParseStatistic(std::string_view text) {
  text = base::Trim(text);
  if (text == "null" || text == "False" || text == "false") {
    return 0;
  }
  if (text == "True" || text == "true") {
    return 1;
  }
  const std::optional<double> value = base::ParseDouble(text);
  return value ? static_cast<float>(*value) : kNoStatistic;
}

Result<StatisticRows> ReadStatistics(const Folder& folder) {
  StatisticRows rows;
  const std::filesystem::path path = folder.path / kKernelStatisticFile;
  MSP_ASSIGN_OR_RETURN(rows.table, report::ReadCsv(path));
  rows.path = path.string();
  const std::vector<std::string>& columns = rows.table.columns();
  if (columns.size() < kLeastColumns) {
    return BadFormatError(rows.path + ": has " + std::to_string(columns.size()) +
                          " columns, a kernel statistic has at least " +
                          std::to_string(kLeastColumns));
  }
  const auto column = [&](std::string_view name) {
    const auto found = std::find(columns.begin(), columns.end(), name);
    return static_cast<size_t>(found - columns.begin());
  };
  const auto text_at = [](std::span<const Cell> row, size_t index) {
    return index < row.size() ? row[index].text() : std::string_view();
  };
  const size_t dtype_column = column("Data Type");
  const size_t shape_column = column("Shape");
  std::array<size_t, kStatCount> stat_columns{};
  std::transform(kGraphStatColumns.begin(), kGraphStatColumns.end(), stat_columns.begin(), column);
  for (size_t i = 0; i < rows.table.row_count(); ++i) {
    const auto row = rows.table.row(i);
    KernelKey key;
    for (const size_t part : kKeyColumns) {
      key.key += key.key.empty() ? "" : ".";
      key.key += row[part].text();
    }
    key.time = row[kTimeColumn].text();
    rows.keys.push_back(std::move(key));
    rows.dtypes.push_back(text_at(row, dtype_column));
    rows.shapes.push_back(text_at(row, shape_column));
    std::array<float, kStatCount>& stats = rows.stats.emplace_back();
    for (size_t stat = 0; stat < kStatCount; ++stat) {
      stats[stat] = stat_columns[stat] < row.size() ? ParseStatistic(row[stat_columns[stat]].text())
                                                    : kNoStatistic;
    }
  }
  return rows;
}

Cell FloatCell(float value) {
  if (std::isnan(value)) {
    return {};
  }
  if (std::isinf(value)) {
    return Cell::Text(value > 0 ? "inf" : "-inf");
  }
  return Cell::Number(static_cast<double>(value));
}

// |x - y| / y in per cent where the bench value is positive, else 0.
Cell RelativeCell(float difference, float bench, report::Table& table) {
  if (!(bench > 0)) {
    return Cell::Text("0%");
  }
  const float relative = difference / bench;
  if (std::isnan(relative)) {
    return {};
  }
  std::string text;
  base::AppendPythonFloatRepr(static_cast<double>(relative) * 100, text);
  return table.KeepText(text + "%");
}

// The largest difference against the larger of the two maxima; NaN on both sides agrees.
bool MaximaAgree(float npu_max, float bench_max, float difference) {
  constexpr double kTinyScale = 1e-10;
  constexpr double kLargestShare = 0.5;
  if (std::isnan(npu_max) && std::isnan(bench_max)) {
    return true;
  }
  const double scale = static_cast<double>(std::max(npu_max, bench_max)) + kTinyScale;
  return static_cast<double>(difference) / scale <= kLargestShare;
}

std::string Objections(std::string_view npu_dtype, std::string_view bench_dtype,
                       std::string_view npu_shape, std::string_view bench_shape) {
  std::string message;
  const auto is_scalar = [](std::string_view shape) { return shape == "()" || shape == "[]"; };
  if (is_scalar(npu_shape) || is_scalar(bench_shape)) {
    message += "A scalar cannot be compared.\n";
  }
  if (npu_shape != bench_shape) {
    message += "The tensor shapes differ.\n";
  }
  if (npu_dtype != bench_dtype) {
    message += "The dtypes differ.\n";
  }
  return message;
}

void AppendStatisticRow(const StatisticRows& npu, const StatisticRows& bench,
                        const KernelPair& pair, report::Table& table) {
  const bool has_npu = pair.npu != kNoKernel;
  const bool has_bench = pair.bench != kNoKernel;
  std::vector<Cell> cells;
  const auto add_name = [&](bool present, const StatisticRows& rows, size_t index) {
    cells.push_back(present ? table.KeepText(rows.keys[index].key + " " + rows.path) : Cell());
  };
  const auto add_text = [&](bool present, const std::vector<std::string_view>& texts,
                            size_t index) {
    cells.push_back(present ? table.KeepText(texts[index]) : Cell());
  };
  add_name(has_npu, npu, pair.npu);
  add_name(has_bench, bench, pair.bench);
  add_text(has_npu, npu.dtypes, pair.npu);
  add_text(has_bench, bench.dtypes, pair.bench);
  add_text(has_npu, npu.shapes, pair.npu);
  add_text(has_bench, bench.shapes, pair.bench);
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    cells.push_back(has_npu ? FloatCell(npu.stats[pair.npu][stat]) : Cell());
  }
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    cells.push_back(has_bench ? FloatCell(bench.stats[pair.bench][stat]) : Cell());
  }
  std::string message;
  if (!has_npu || !has_bench) {
    message =
        has_npu ? "The bench side has no such tensor.\n" : "The NPU side has no such tensor.\n";
  } else {
    message = Objections(npu.dtypes[pair.npu], bench.dtypes[pair.bench], npu.shapes[pair.npu],
                         bench.shapes[pair.bench]);
  }
  if (!message.empty()) {
    cells.emplace_back();
    cells.push_back(table.KeepText(message));
    cells.resize(table.columns().size());
    table.AddRow(cells);
    return;
  }
  std::array<float, kStatCount> differences{};
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    differences[stat] = std::fabs(npu.stats[pair.npu][stat] - bench.stats[pair.bench][stat]);
  }
  cells.push_back(Cell::Text(
      MaximaAgree(npu.stats[pair.npu][kMax], bench.stats[pair.bench][kMax], differences[kMax])
          ? "Yes"
          : "No"));
  cells.push_back(Cell::Text(""));
  for (const float difference : differences) {
    cells.push_back(FloatCell(difference));
  }
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    cells.push_back(RelativeCell(differences[stat], bench.stats[pair.bench][stat], table));
  }
  table.AddRow(cells);
}

}  // namespace

Status AppendStatisticRows(const Folder& npu, const Folder& bench, report::Table& table,
                           FolderCounts& counts) {
  MSP_ASSIGN_OR_RETURN(const StatisticRows npu_rows, ReadStatistics(npu));
  MSP_ASSIGN_OR_RETURN(const StatisticRows bench_rows, ReadStatistics(bench));
  std::vector<KernelOutcome> outcomes;
  for (const KernelPair& pair : PairKernels(npu_rows.keys, bench_rows.keys)) {
    AppendStatisticRow(npu_rows, bench_rows, pair, table);
    if (pair.npu == kNoKernel || pair.bench == kNoKernel) {
      ++(pair.npu == kNoKernel ? counts.bench_only : counts.npu_only);
    } else if (npu_rows.shapes[pair.npu] != bench_rows.shapes[pair.bench] ||
               npu_rows.dtypes[pair.npu] != bench_rows.dtypes[pair.bench]) {
      ++counts.mismatched;
    } else {
      std::array<double, kStatCount> n{};
      std::array<double, kStatCount> b{};
      std::copy(npu_rows.stats[pair.npu].begin(), npu_rows.stats[pair.npu].end(), n.begin());
      std::copy(bench_rows.stats[pair.bench].begin(), bench_rows.stats[pair.bench].end(),
                b.begin());
      outcomes.push_back({&npu_rows.keys[pair.npu], FolderDistance(n, b), kTextNoise});
    }
  }
  CountInOrder(std::move(outcomes), counts);
  return OkStatus();
}

}  // namespace msprobe::analysis::compare
