#include "src/analysis/rl/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/rl/pair_metrics.h"
#include "src/analysis/rl/saved_data.h"
#include "src/base/files.h"
#include "src/base/number_text.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/thread_pool.h"
#include "src/report/writers.h"

namespace msprobe::analysis::rl {
namespace {

namespace fs = std::filesystem;
using report::Cell;

struct ColumnName {
  std::string_view chinese;
  std::string_view english;
};
// The first twelve are the Python tool's.
constexpr size_t kCompatColumns = 12;
constexpr std::array<ColumnName, 18> kColumns = {{
    {"step", "step"},
    {"rank", "rank"},
    {"micro_step", "micro_step"},
    {"id", "id"},
    {"shape1", "shape1"},
    {"shape2", "shape2"},
    {"相同元素百分比(%)", "same elements (%)"},
    {"首个不匹配元素索引", "first mismatch"},
    {"最大绝对误差", "max absolute error"},
    {"最大相对误差", "max relative error"},
    {"误差在千分之一内元素占比(%)", "within 1/1000 (%)"},
    {"误差在百分之一内元素占比(%)", "within 1/100 (%)"},
    {"平均绝对误差", "mean absolute error"},
    {"余弦相似度", "cosine"},
    {"NaN个数1", "NaN count 1"},
    {"NaN个数2", "NaN count 2"},
    {"仅一侧为NaN的个数", "NaN on one side"},
    {"备注", "note"},
}};

struct Side {
  std::optional<fs::path> path;
  std::string shape;
};

struct Row {
  Place place;
  Side first;
  Side second;
  std::optional<PairMetrics> metrics;
  std::string error;
};

struct KeyRows {
  std::string key;
  std::vector<Row> rows;
};

using PlacedFiles = std::map<Place, fs::path>;

// The Python tool knows members by number only: those of a dict are all number 0, of which the last
// one counts.
PlacedFiles WithNumbersOnly(const PlacedFiles& files) {
  PlacedFiles numbered;
  for (const auto& [place, path] : files) {
    Place one = place;
    const std::optional<int64_t> number =
        place.member.find_first_not_of("0123456789") == std::string::npos
            ? base::ParseInt(place.member)
            : std::nullopt;
    one.member = std::to_string(number.value_or(0));
    numbered.insert_or_assign(std::move(one), path);
  }
  return numbered;
}

std::vector<KeyRows> PairUp(const SavedData& first, const SavedData& second, bool compat) {
  std::set<std::string> keys;
  for (const auto* side : {&first, &second}) {
    for (const auto& [key, files] : side->keys) {
      keys.insert(key);
    }
  }
  std::vector<KeyRows> all;
  for (const std::string& key : keys) {
    const auto files_of = [&](const SavedData& side) {
      const auto found = side.keys.find(key);
      const PlacedFiles files = found == side.keys.end() ? PlacedFiles() : found->second;
      return compat ? WithNumbersOnly(files) : files;
    };
    std::map<Place, Row> rows;
    for (auto& [place, path] : files_of(first)) {
      rows[place].first.path = path;
    }
    for (auto& [place, path] : files_of(second)) {
      rows[place].second.path = path;
    }
    KeyRows& out = all.emplace_back();
    out.key = key;
    for (auto& [place, row] : rows) {
      if (compat && (!row.first.path || !row.second.path)) {
        continue;
      }
      row.place = place;
      out.rows.push_back(std::move(row));
    }
  }
  return all;
}

Status CompareRow(Row& row, bool compat, std::vector<std::byte>& first_scratch,
                  std::vector<std::byte>& second_scratch) {
  std::optional<TensorFile> files[2];
  const NamedTensor* tensors[2] = {nullptr, nullptr};
  Side* sides[2] = {&row.first, &row.second};
  std::vector<std::byte>* scratch[2] = {&first_scratch, &second_scratch};
  for (size_t i = 0; i < 2; ++i) {
    if (!sides[i]->path) {
      continue;
    }
    TensorFile::Options options;
    options.scratch = scratch[i];
    MSP_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(*sides[i]->path, options));
    files[i].emplace(std::move(file));
    MSP_ASSIGN_OR_RETURN(tensors[i], files[i]->Single());
    MSP_RETURN_IF_ERROR(Status(tensors[i]->status));
    sides[i]->shape = ShapeText(tensors[i]->view.shape);
  }
  if (tensors[0] == nullptr || tensors[1] == nullptr) {
    return {};
  }
  MSP_ASSIGN_OR_RETURN(row.metrics, ComparePair(tensors[0]->view, tensors[1]->view, compat));
  return {};
}

Cell NumberCell(double value) { return std::isfinite(value) ? Cell::Number(value) : Cell(); }

std::string NoteOf(const Row& row, Language language) {
  const bool chinese = language == Language::kChinese;
  if (!row.error.empty()) {
    return row.error;
  }
  if (!row.first.path || !row.second.path) {
    return row.first.path ? (chinese ? "仅存在于第一次运行" : "only in the first run")
                          : (chinese ? "仅存在于第二次运行" : "only in the second run");
  }
  if (row.metrics->shapes_differ) {
    return chinese ? "形状不同，仅比较公共部分" : "shapes differ: only the common part is compared";
  }
  return {};
}

report::Table MakeTable(const KeyRows& key, const Options& options) {
  const size_t column_count = options.compat ? kCompatColumns : kColumns.size();
  std::vector<std::string> columns;
  for (size_t i = 0; i < column_count; ++i) {
    columns.emplace_back(options.language == Language::kChinese ? kColumns[i].chinese
                                                                : kColumns[i].english);
  }
  report::Table table("Sheet1", std::move(columns));
  for (const Row& row : key.rows) {
    if (options.compat && !row.metrics) {
      continue;
    }
    const bool is_number = row.place.member.find_first_not_of("0123456789") == std::string::npos;
    std::vector<Cell> cells = {Cell::Integer(row.place.step),
                               Cell::Integer(row.place.rank),
                               Cell::Integer(row.place.micro_step),
                               is_number
                                   ? Cell::Integer(base::ParseInt(row.place.member).value_or(0))
                                   : table.KeepText(row.place.member),
                               table.KeepText(row.first.shape),
                               table.KeepText(row.second.shape)};
    if (row.metrics) {
      const PairMetrics& metrics = *row.metrics;
      cells.insert(
          cells.end(),
          {NumberCell(metrics.same_percent),
           metrics.first_mismatch ? Cell::Integer(static_cast<int64_t>(*metrics.first_mismatch))
                                  : Cell(),
           NumberCell(metrics.max_abs), NumberCell(metrics.max_relative),
           NumberCell(metrics.within_thousandth_percent),
           NumberCell(metrics.within_hundredth_percent), NumberCell(metrics.mean_abs),
           metrics.cosine ? NumberCell(*metrics.cosine) : Cell(),
           Cell::Integer(static_cast<int64_t>(metrics.first_nan_count)),
           Cell::Integer(static_cast<int64_t>(metrics.second_nan_count)),
           Cell::Integer(static_cast<int64_t>(metrics.nan_mismatch_count))});
    }
    cells.resize(kColumns.size() - 1);
    const std::string note = NoteOf(row, options.language);
    cells.push_back(note.empty() ? Cell() : table.KeepText(note));
    cells.resize(column_count);
    table.AddRow(cells);
  }
  return table;
}

std::string PlaceText(const Place& place) {
  return fmt::format("step {}, rank {}, micro step {}{}", place.step, place.rank, place.micro_step,
                     place.member.empty() ? "" : ", " + base::Printable(place.member));
}

KeySummary Summarize(const KeyRows& key) {
  KeySummary summary;
  summary.key = key.key;
  for (const Row& row : key.rows) {
    if (!row.error.empty()) {
      ++summary.failed;
    } else if (!row.metrics) {
      ++(row.first.path ? summary.only_first : summary.only_second);
    } else {
      const PairMetrics& metrics = *row.metrics;
      ++summary.compared;
      summary.identical += !metrics.first_mismatch && !metrics.shapes_differ ? 1 : 0;
      summary.other_shape += metrics.shapes_differ ? 1 : 0;
      summary.nan_mismatches += metrics.nan_mismatch_count;
      if (metrics.max_abs > summary.max_abs) {
        summary.max_abs = metrics.max_abs;
        summary.worst = PlaceText(row.place);
      }
    }
  }
  return summary;
}

Status WriteKey(const KeyRows& key, const Options& options, base::ThreadPool& pool,
                std::vector<fs::path>& files) {
  const report::Table table = MakeTable(key, options);
  for (const FileFormat format : options.formats) {
    fs::path path = options.output / key.key;
    switch (format) {
      case FileFormat::kXlsx: {
        path += ".xlsx";
        report::XlsxOptions xlsx;
        xlsx.freeze_header = xlsx.autofilter = !options.compat;
        xlsx.styled_header = true;
        const report::Table* const sheets[] = {&table};
        MSP_RETURN_IF_ERROR(report::WriteXlsx(path, sheets, xlsx, pool));
        break;
      }
      case FileFormat::kCsv:
        path += ".csv";
        MSP_RETURN_IF_ERROR(report::WriteCsv(path, table));
        break;
      case FileFormat::kJson:
        path += ".jsonl";
        MSP_RETURN_IF_ERROR(report::WriteJsonLines(path, table));
        break;
    }
    files.push_back(path);
  }
  return {};
}

}  // namespace

Result<Comparison> Compare(const Options& options) {
  MSP_ASSIGN_OR_RETURN(SavedData first, FindSavedData(options.first));
  MSP_ASSIGN_OR_RETURN(SavedData second, FindSavedData(options.second));
  Comparison comparison;
  comparison.warnings = std::move(first.warnings);
  comparison.warnings.insert(comparison.warnings.end(), second.warnings.begin(),
                             second.warnings.end());
  std::vector<KeyRows> keys = PairUp(first, second, options.compat);
  std::vector<Row*> rows;
  for (KeyRows& key : keys) {
    for (Row& row : key.rows) {
      rows.push_back(&row);
    }
  }
  base::ThreadPool pool(options.threads);
  std::vector<std::array<std::vector<std::byte>, 2>> scratch(pool.thread_count());
  {
    base::Progress progress("comparing", rows.size(), "arrays", options.quiet);
    pool.ParallelFor(rows.size(), [&](size_t index, size_t worker) {
      Row& row = *rows[index];
      const Status status = CompareRow(row, options.compat, scratch[worker][0], scratch[worker][1]);
      if (!status.ok()) {
        row.error = status.message();
      }
      progress.Add();
    });
  }
  MSP_RETURN_IF_ERROR(base::CreateFolders(options.output));
  for (const KeyRows& key : keys) {
    for (const Row& row : key.rows) {
      if (!row.error.empty()) {
        comparison.warnings.push_back(
            fmt::format("{}: {}: {}", base::Printable(key.key), PlaceText(row.place), row.error));
      }
    }
    comparison.keys.push_back(Summarize(key));
    MSP_RETURN_IF_ERROR(WriteKey(key, options, pool, comparison.files));
  }
  return comparison;
}

bool HasDifferences(const Comparison& comparison) {
  return std::any_of(comparison.keys.begin(), comparison.keys.end(), [](const KeySummary& key) {
    return key.identical < key.compared || key.only_first + key.only_second + key.failed > 0;
  });
}

report::Table SummaryTable(const Comparison& comparison) {
  report::Table table("keys", {"Key", "Pairs", "Same", "Only a", "Only b", "Shape", "Failed", "NaN",
                               "Max error", "Where"});
  for (const KeySummary& key : comparison.keys) {
    const auto count = [](uint64_t value) { return Cell::Integer(static_cast<int64_t>(value)); };
    const Cell cells[] = {table.KeepText(base::Printable(key.key)),
                          count(key.compared),
                          count(key.identical),
                          count(key.only_first),
                          count(key.only_second),
                          count(key.other_shape),
                          count(key.failed),
                          count(key.nan_mismatches),
                          Cell::Number(key.max_abs),
                          table.KeepText(key.worst)};
    table.AddRow(cells);
  }
  return table;
}

}  // namespace msprobe::analysis::rl
