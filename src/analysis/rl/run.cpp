#include "src/analysis/rl/run.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "src/analysis/rl/arrays.h"
#include "src/analysis/rl/pair_metrics.h"
#include "src/analysis/rl/saved_data.h"
#include "src/analysis/rl/token_tables.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"

namespace msprobe::analysis::rl {
namespace {

namespace fs = std::filesystem;
using report::Cell;

// Behind those of the location. The first eight are the Python tool's.
constexpr size_t kCompatColumns = 8;
constexpr std::array<ColumnName, 14> kColumns = {{
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
    kNoteColumn,
}};

struct Row {
  FilePair files;
  std::string first_shape;
  std::string second_shape;
  std::optional<PairMetrics> metrics;
  std::string error;
};

struct KeyRows {
  std::string key;
  std::vector<Row> rows;
};

// The Python tool knows members by number only: those of a dict are all number 0, of which the last
// one counts.
LocatedFiles WithNumbersOnly(const LocatedFiles& files) {
  LocatedFiles numbered;
  for (const auto& [location, path] : files) {
    ArrayLocation numbered_location = location;
    const std::optional<int64_t> number =
        location.member.find_first_not_of("0123456789") == std::string::npos
            ? base::ParseInt(location.member)
            : std::nullopt;
    numbered_location.member = std::to_string(number.value_or(0));
    numbered.insert_or_assign(std::move(numbered_location), path);
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
      const LocatedFiles files = found == side.keys.end() ? LocatedFiles() : found->second;
      return compat ? WithNumbersOnly(files) : files;
    };
    KeyRows& out = all.emplace_back();
    out.key = key;
    for (FilePair& pair : PairFiles(files_of(first), files_of(second))) {
      if (!compat || (pair.first && pair.second)) {
        out.rows.emplace_back().files = std::move(pair);
      }
    }
  }
  return all;
}

Status CompareRow(Row& row, bool compat, std::array<std::vector<std::byte>, 2>& scratch) {
  const std::optional<fs::path>* const paths[] = {&row.files.first, &row.files.second};
  std::string* const shapes[] = {&row.first_shape, &row.second_shape};
  std::optional<OpenArray> arrays[2];
  for (size_t i = 0; i < 2; ++i) {
    if (paths[i]->has_value()) {
      MSP_ASSIGN_OR_RETURN(arrays[i], OpenSavedArray(**paths[i], scratch[i]));
      *shapes[i] = ShapeText(arrays[i]->view.shape);
    }
  }
  if (arrays[0] && arrays[1]) {
    MSP_ASSIGN_OR_RETURN(row.metrics, ComparePair(arrays[0]->view, arrays[1]->view, compat));
  }
  return {};
}

std::string NoteOf(const Row& row, Language language) {
  if (!row.error.empty()) {
    return row.error;
  }
  if (!row.metrics) {
    return std::string(PartnerNote(row.files, language));
  }
  return row.metrics->shapes_differ ? std::string(ShapesNote(language)) : "";
}

report::Table MakeTable(const KeyRows& key, const Options& options) {
  const size_t column_count = options.compat ? kCompatColumns : kColumns.size();
  report::Table table("Sheet1", NamesOf(std::span(kColumns).first(column_count), options.language));
  for (const Row& row : key.rows) {
    if (options.compat && !row.metrics) {
      continue;
    }
    std::vector<Cell> cells = LocationCells(table, row.files.location);
    cells.push_back(table.KeepText(row.first_shape));
    cells.push_back(table.KeepText(row.second_shape));
    if (row.metrics) {
      const PairMetrics& metrics = *row.metrics;
      cells.insert(cells.end(),
                   {NumberCell(metrics.same_percent),
                    metrics.first_mismatch ? CountCell(*metrics.first_mismatch) : Cell(),
                    NumberCell(metrics.max_abs), NumberCell(metrics.max_relative),
                    NumberCell(metrics.within_thousandth_percent),
                    NumberCell(metrics.within_hundredth_percent), NumberCell(metrics.mean_abs),
                    metrics.cosine ? NumberCell(*metrics.cosine) : Cell(),
                    CountCell(metrics.first_nan_count), CountCell(metrics.second_nan_count),
                    CountCell(metrics.nan_mismatch_count)});
    }
    cells.resize(kLocationColumns + kColumns.size() - 1);
    cells.push_back(NoteCell(table, NoteOf(row, options.language)));
    cells.resize(kLocationColumns + column_count);
    table.AddRow(cells);
  }
  return table;
}

KeySummary Summarize(const KeyRows& key) {
  KeySummary summary;
  summary.key = key.key;
  for (const Row& row : key.rows) {
    if (!row.error.empty()) {
      ++summary.failed;
    } else if (!row.metrics) {
      ++(row.files.first ? summary.only_first : summary.only_second);
    } else {
      const PairMetrics& metrics = *row.metrics;
      ++summary.compared;
      summary.identical += !metrics.first_mismatch && !metrics.shapes_differ ? 1 : 0;
      summary.other_shape += metrics.shapes_differ ? 1 : 0;
      summary.nan_mismatches += metrics.nan_mismatch_count;
      if (metrics.max_abs > summary.max_abs) {
        summary.max_abs = metrics.max_abs;
        summary.worst = LocationText(row.files.location);
      }
    }
  }
  return summary;
}

Status AddTokens(const TokenKey& key, const Options& options, const SavedData& first,
                 const SavedData& second, base::ThreadPool& pool, Comparison& comparison) {
  const TokenComparison tokens =
      CompareTokenKey(key, options.tokens, first, second, pool, options.quiet);
  const auto write = [&](const report::Table& table, std::string_view ending) {
    return WriteTable(table, options.output / (key.first + std::string(ending)), options.formats,
                      false, pool, comparison.files);
  };
  MSP_RETURN_IF_ERROR(write(WorstTokensTable(tokens, options.language), kTokensEnding));
  MSP_RETURN_IF_ERROR(write(TokenStepsTable(tokens, options.language), kTokenStepsEnding));
  const std::vector<std::string> warnings = WarningsOf(tokens);
  comparison.warnings.insert(comparison.warnings.end(), warnings.begin(), warnings.end());
  comparison.tokens.push_back(Summarize(tokens));
  return {};
}

// Before anything is compared: none of the results is there yet, or --force is given.
Status CheckFiles(const Options& options, const std::vector<KeyRows>& keys) {
  std::vector<std::string> stems;
  for (const KeyRows& key : keys) {
    stems.push_back(key.key);
  }
  for (const TokenKey& key : options.tokens.keys) {
    stems.push_back(key.first + std::string(kTokensEnding));
    stems.push_back(key.first + std::string(kTokenStepsEnding));
  }
  for (const std::string& stem : stems) {
    for (const FileFormat format : options.formats) {
      MSP_RETURN_IF_ERROR(
          base::CheckOutputFile(options.output / (stem + std::string(EndingOf(format)))));
    }
  }
  return {};
}

}  // namespace

Result<Comparison> Run(const Options& options) {
  MSP_ASSIGN_OR_RETURN(SavedData first, FindSavedData(options.first));
  MSP_ASSIGN_OR_RETURN(SavedData second, FindSavedData(options.second));
  MSP_RETURN_IF_ERROR(CheckTokenKeys(options.tokens, first, second));
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
  MSP_RETURN_IF_ERROR(CheckFiles(options, keys));
  base::ThreadPool pool(options.threads);
  std::vector<std::array<std::vector<std::byte>, 2>> scratch(pool.thread_count());
  {
    base::Progress progress("comparing", rows.size(), "arrays", options.quiet);
    pool.ParallelFor(rows.size(), [&](size_t index, size_t worker) {
      Row& row = *rows[index];
      const Status status = CompareRow(row, options.compat, scratch[worker]);
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
        comparison.warnings.push_back(fmt::format("{}: {}: {}", base::Printable(key.key),
                                                  LocationText(row.files.location), row.error));
      }
    }
    comparison.keys.push_back(Summarize(key));
    MSP_RETURN_IF_ERROR(WriteTable(MakeTable(key, options), options.output / key.key,
                                   options.formats, options.compat, pool, comparison.files));
  }
  for (const TokenKey& key : options.tokens.keys) {
    MSP_RETURN_IF_ERROR(AddTokens(key, options, first, second, pool, comparison));
  }
  return comparison;
}

}  // namespace msprobe::analysis::rl
