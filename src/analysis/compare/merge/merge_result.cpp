#include "src/analysis/compare/merge/merge_result.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/analysis/compare/result_table.h"
#include "src/analysis/compare/side.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/text_finder.h"
#include "src/json/config.h"
#include "src/report/readers.h"
#include "src/report/writers.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::compare::merge {
namespace {

using report::Cell;

constexpr std::string_view kXlsxSuffix = ".xlsx";
constexpr std::string_view kCsvSuffix = ".csv";
constexpr size_t kStampDigits = 14;
// Other results of this program that may lie in the same folder.
constexpr std::string_view kOtherResults[] = {"debug_compare_result", "multi_ranks_compare_merge",
                                              "advisor"};

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The column of each name, or nothing when one is missing.
std::optional<std::vector<size_t>> FindColumns(const report::Table& table,
                                               const std::vector<std::string>& names) {
  std::vector<size_t> places;
  for (const std::string& name : names) {
    const auto found = std::find(table.columns().begin(), table.columns().end(), name);
    if (found == table.columns().end()) {
      return std::nullopt;
    }
    places.push_back(static_cast<size_t>(found - table.columns().begin()));
  }
  return places;
}

Result<CompareMode> ModeOf(const report::Table& table) {
  const std::vector<std::string> needed = {std::string(kNpuNameColumn), "NPU max", "Bench max"};
  if (FindColumns(table, needed)) {
    for (const CompareMode mode : {CompareMode::kRealData, CompareMode::kStatistics}) {
      if (FindColumns(table, MetricColumns(mode))) {
        return mode;
      }
    }
  }
  if (FindColumns(table, {std::string(kNpuNameColumn), "NPU MD5", "BENCH MD5"})) {
    return UnsupportedError("holds checksums, which cannot be merged");
  }
  return BadFormatError("its first row is not the header of a comparison result");
}

// Values that say nothing by themselves: the two maxima are shown in their place.
bool NeedsMaxima(const Cell& cell) {
  if (cell.kind() != report::CellKind::kText) {
    return false;
  }
  const std::string_view text = base::Trim(cell.text());
  return text == "N/A" || text == "unsupported" || text == "Nan";
}

// Cells of a csv are all text; those that hold a number become one.
Cell TypedCell(const Cell& cell) {
  if (cell.kind() != report::CellKind::kText) {
    return cell;
  }
  const std::string_view text = cell.text();
  if (text.empty()) {
    return {};
  }
  const std::optional<double> number = base::ParseDouble(text);
  return number && std::isfinite(*number) ? Cell::Number(*number) : cell;
}

class RowPicker {
 public:
  RowPicker(const MergeConfig& config, bool is_csv, RankRows& out) : is_csv_(is_csv), out_(out) {
    std::vector<std::string> calls;
    for (const std::string& api : config.apis) {
      calls.push_back(api + ".");
    }
    finder_ = base::TextFinder(std::vector<std::string_view>(calls.begin(), calls.end()));
    rows_of_api_.resize(calls.size());
    out_.api_found.assign(calls.size(), false);
  }

  // Adds the rows of one sheet.
  Status Add(const report::Table& table) {
    std::vector<std::string> wanted = {std::string(kNpuNameColumn), "NPU max", "Bench max"};
    wanted.insert(wanted.end(), out_.metrics.begin(), out_.metrics.end());
    const auto columns = FindColumns(table, wanted);
    if (!columns) {
      return BadFormatError("sheet " + table.name() + " lacks columns of the first sheet");
    }
    for (size_t i = 0; i < table.row_count(); ++i) {
      const auto row = table.row(i);
      const std::string_view name = row[(*columns)[0]].text();
      // A row that two prefixes fit is shown once, with the first.
      if (const std::optional<uint32_t> api = finder_.First(name)) {
        rows_of_api_[*api].push_back(Pick(name, row, *columns));
        out_.api_found[*api] = true;
      }
    }
    return OkStatus();
  }

  void Finish() {
    for (std::vector<MergedRow>& rows : rows_of_api_) {
      out_.rows.insert(out_.rows.end(), rows.begin(), rows.end());
    }
    std::unordered_map<std::string_view, uint32_t> seen;
    for (MergedRow& row : out_.rows) {
      row.occurrence = seen[row.name]++;
    }
  }

 private:
  MergedRow Pick(std::string_view name, std::span<const Cell> row,
                 const std::vector<size_t>& columns) {
    MergedRow picked;
    picked.name = out_.arena->Keep(name);
    for (size_t metric = 0; metric < out_.metrics.size(); ++metric) {
      const Cell& cell = row[columns[3 + metric]];
      const Cell typed = is_csv_ ? TypedCell(cell) : cell;
      if (NeedsMaxima(cell)) {
        picked.cells[metric] = Cell::Text(out_.arena->Keep(
            "NPU:" + std::string(base::Trim(report::CellText(row[columns[1]]))) +
            "  Bench:" + std::string(base::Trim(report::CellText(row[columns[2]])))));
      } else if (typed.kind() == report::CellKind::kText) {
        const std::string_view text = typed.text();
        out_.formula_like_texts += LooksLikeFormula(text) ? 1 : 0;
        picked.cells[metric] = Cell::Text(out_.arena->Keep(text));
      } else {
        picked.cells[metric] = typed;
      }
    }
    return picked;
  }

  const bool is_csv_;
  RankRows& out_;
  base::TextFinder finder_;  // of the configured calls
  std::vector<std::vector<MergedRow>> rows_of_api_;
};

}  // namespace

std::optional<RankFileName> ParseRankFileName(std::string_view name) {
  RankFileName parsed;
  constexpr std::string_view kPrefix = "compare_result_rank";
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  name.remove_prefix(kPrefix.size());
  parsed.is_csv = name.ends_with(kCsvSuffix);
  if (!parsed.is_csv && !name.ends_with(kXlsxSuffix)) {
    return std::nullopt;
  }
  name.remove_suffix(parsed.is_csv ? kCsvSuffix.size() : kXlsxSuffix.size());
  size_t underscore = name.rfind('_');
  // A further run of the same second has a short number behind the time.
  if (underscore != std::string_view::npos && underscore > 0 &&
      name.size() - underscore - 1 < kStampDigits && IsDigits(name.substr(underscore + 1))) {
    underscore = name.rfind('_', underscore - 1);
  }
  if (underscore == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view stamp = name.substr(underscore + 1);
  std::string_view rank = name.substr(0, underscore);
  if (!IsDigits(stamp.substr(0, stamp.find('_'))) ||
      std::min(stamp.find('_'), stamp.size()) != kStampDigits) {
    return std::nullopt;
  }
  parsed.stamp = stamp;
  if (const size_t dash = rank.find("-rank"); dash != std::string_view::npos) {
    if (rank.substr(dash + 5) != rank.substr(0, dash)) {
      return std::nullopt;
    }
    rank = rank.substr(0, dash);
  }
  if (!rank.empty()) {
    const std::optional<int64_t> number = base::ParseInt(rank);
    if (!number || !IsDigits(rank)) {
      return std::nullopt;
    }
    parsed.rank = *number;
  }
  return parsed;
}

Result<MergeConfig> LoadMergeConfig(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(path));
  if (!config.root().is_object()) {
    return UsageError(path.string() + ": must hold `api: [prefixes of calls]`");
  }
  MSP_RETURN_IF_ERROR(
      config.CheckKeys(config.root(), std::vector<std::string>{"api", "compare_index"}));
  MergeConfig merge;
  MSP_ASSIGN_OR_RETURN(merge.apis, config.TextList(config.root(), "api"));
  MSP_ASSIGN_OR_RETURN(std::vector<std::string> metrics,
                       config.TextList(config.root(), "compare_index"));
  // A metric that is listed again would make a second sheet of one name.
  std::unordered_set<std::string_view> listed;
  for (const std::string& metric : metrics) {
    if (listed.insert(metric).second) {
      merge.metrics.push_back(metric);
    }
  }
  if (merge.apis.empty()) {
    return UsageError(path.string() + ": `api` names no call")
        .WithHint("api: [Distributed.all_reduce] merges every all_reduce");
  }
  return merge;
}

Result<std::vector<RankFile>> FindRankFiles(const std::filesystem::path& folder,
                                            std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  std::map<int64_t, RankFile> newest;
  for (const std::string& name : names) {
    const std::optional<RankFileName> parsed = ParseRankFileName(name);
    if (!parsed) {
      const bool ours =
          std::any_of(std::begin(kOtherResults), std::end(kOtherResults),
                      [&](std::string_view prefix) { return name.starts_with(prefix); });
      if (name.ends_with(kXlsxSuffix) && !ours) {
        return UsageError((folder / name).string() + ": is not the comparison result of a rank")
            .WithHint(
                "keep only files like compare_result_rank0_20250101000000.xlsx in the folder");
      }
      continue;
    }
    if (!parsed->rank) {
      warnings.push_back((folder / name).string() + ": left out, its name has no rank number");
      continue;
    }
    RankFile file{*parsed->rank, parsed->stamp, folder / name, parsed->is_csv};
    const auto [place, added] = newest.emplace(*parsed->rank, file);
    if (added) {
      continue;
    }
    // If a comparison wrote both, the workbook is better: it keeps the cell types.
    const bool newer =
        std::pair(file.stamp, !file.is_csv) > std::pair(place->second.stamp, !place->second.is_csv);
    if (file.stamp != place->second.stamp) {
      warnings.push_back("rank " + std::to_string(file.rank) + " has several results; " +
                         (newer ? file.path : place->second.path).string() + " is the newest");
    }
    if (newer) {
      place->second = std::move(file);
    }
  }
  std::vector<RankFile> files;
  files.reserve(newest.size());
  for (auto& [rank, file] : newest) {
    files.push_back(std::move(file));
  }
  return files;
}

Result<RankRows> ReadRankRows(const RankFile& file, const MergeConfig& config) {
  std::vector<report::Table> sheets;
  if (file.is_csv) {
    MSP_ASSIGN_OR_RETURN(report::Table table, report::ReadCsv(file.path));
    sheets.push_back(std::move(table));
  } else {
    MSP_ASSIGN_OR_RETURN(sheets, report::ReadXlsx(file.path));
  }
  if (sheets.empty()) {
    return BadFormatError(file.path.string() + ": has no sheet");
  }
  RankRows rows;
  MSP_ASSIGN_OR_RETURN(rows.mode, ModeOf(sheets.front()), file.path.string());
  const std::vector<std::string> all_metrics = MetricColumns(rows.mode);
  rows.metrics = config.metrics.empty() ? all_metrics : config.metrics;
  for (const std::string& metric : rows.metrics) {
    if (std::find(all_metrics.begin(), all_metrics.end(), metric) == all_metrics.end()) {
      return MismatchError(file.path.string() + ": a result of " +
                           std::string(CompareModeName(rows.mode)) + " has no metric \"" + metric +
                           "\"");
    }
  }
  if (rows.metrics.size() > kMetricSlots) {
    return UsageError(file.path.string() + ": " + std::to_string(rows.metrics.size()) +
                      " metrics are asked for, a row has at most " + std::to_string(kMetricSlots));
  }
  RowPicker picker(config, file.is_csv, rows);
  for (const report::Table& sheet : sheets) {
    MSP_RETURN_IF_ERROR(picker.Add(sheet), file.path.string());
  }
  picker.Finish();
  return rows;
}

namespace {

using report::Table;

constexpr size_t kMostMissingCalls = 20;  // of a rank that are named

struct LoadedRank {
  int64_t rank = 0;
  RankRows rows;
};

// Reads all files; those that do not fit become warnings.
std::vector<LoadedRank> LoadRanks(const std::vector<RankFile>& files, const MergeConfig& config,
                                  base::ThreadPool& pool, Summary& run) {
  std::vector<std::string>& warnings = run.warnings;
  std::vector<Result<RankRows>> read;
  read.reserve(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    read.emplace_back(InternalError("not read"));
  }
  pool.ParallelFor(files.size(),
                   [&](size_t i, size_t) { read[i] = ReadRankRows(files[i], config); });
  std::vector<LoadedRank> ranks;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!read[i].ok()) {
      ++run.dropped_ranks;
      warnings.push_back("rank " + std::to_string(files[i].rank) +
                         " is not merged: " + read[i].status().message());
      continue;
    }
    RankRows& rows = *read[i];
    if (!ranks.empty() && rows.mode != ranks.front().rows.mode) {
      ++run.dropped_ranks;
      warnings.push_back("rank " + std::to_string(files[i].rank) + " is not merged: it compares " +
                         std::string(CompareModeName(rows.mode)) + ", the first rank " +
                         std::string(CompareModeName(ranks.front().rows.mode)));
      continue;
    }
    size_t missing = 0;
    for (size_t api = 0; api < config.apis.size(); ++api) {
      if (!rows.api_found[api] && missing++ < kMostMissingCalls) {
        warnings.push_back("rank " + std::to_string(files[i].rank) + " has no call " +
                           config.apis[api]);
      }
    }
    if (missing > kMostMissingCalls) {
      warnings.push_back(fmt::format("rank {} has none of {} more", files[i].rank,
                                     base::Plural(missing - kMostMissingCalls, "call")));
    }
    if (rows.formula_like_texts > 0) {
      warnings.push_back(files[i].path.string() + ": " + std::to_string(rows.formula_like_texts) +
                         " texts look like formulas; they are written as plain text");
    }
    ranks.push_back({files[i].rank, std::move(rows)});
  }
  return ranks;
}

// A row of the result: the row of each rank in it.
struct JoinedRow {
  std::string_view name;
  std::vector<uint32_t> row_of_rank;  // kNoRow where the rank has none
};

std::vector<JoinedRow> JoinRanks(const std::vector<LoadedRank>& ranks) {
  std::vector<JoinedRow> joined;
  std::unordered_map<std::string_view, std::vector<uint32_t>> places;  // per name, by occurrence
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<MergedRow>& rows = ranks[rank].rows.rows;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<uint32_t>& of_name = places[rows[i].name];
      if (rows[i].occurrence >= of_name.size()) {
        of_name.push_back(static_cast<uint32_t>(joined.size()));
        joined.push_back({rows[i].name, std::vector<uint32_t>(ranks.size(), kNoRow)});
      }
      joined[of_name[rows[i].occurrence]].row_of_rank[rank] = static_cast<uint32_t>(i);
    }
  }
  return joined;
}

void AppendSheets(const std::vector<LoadedRank>& ranks, const std::vector<JoinedRow>& joined,
                  size_t metric, std::deque<Table>& sheets) {
  const std::string& name = ranks.front().rows.metrics[metric];
  std::vector<std::string> columns = {std::string(kNpuNameColumn)};
  for (const LoadedRank& rank : ranks) {
    columns.push_back("rank" + std::to_string(rank.rank));
  }
  const auto parts = report::SplitEvenly(joined.size(), report::kMaxSheetRows);
  std::vector<Cell> cells;
  for (size_t part = 0; part < parts.size(); ++part) {
    Table& sheet =
        sheets.emplace_back(parts.size() == 1 ? name : report::PartSheetName(name, part), columns);
    const auto [first, count] = parts[part];
    sheet.Reserve(count);
    for (size_t i = first; i < first + count; ++i) {
      cells.assign(1, Cell::Text(joined[i].name));
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        const uint32_t row = joined[i].row_of_rank[rank];
        cells.push_back(row == kNoRow ? Cell() : ranks[rank].rows.rows[row].cells[metric]);
      }
      sheet.AddRow(cells);
    }
  }
}

Status TooFew(const std::filesystem::path& folder, size_t count,
              const std::vector<std::string>& warnings) {
  std::string text = folder.string() + ": " + (count == 0 ? "no result" : "one result only") +
                     " of a rank to merge, at least two are needed";
  for (const std::string& warning : warnings) {
    text += "\n  " + warning;
  }
  return MismatchError(std::move(text))
      .WithHint(
          "compare two step folders of several ranks first; results are named "
          "compare_result_rank<N>_<time>.xlsx");
}

}  // namespace

Result<Summary> Run(const Options& options) {
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options.output_folder));
  MSP_ASSIGN_OR_RETURN(const MergeConfig config, LoadMergeConfig(options.config_file));
  Summary run;
  MSP_ASSIGN_OR_RETURN(const std::vector<RankFile> files,
                       FindRankFiles(options.input_folder, run.warnings));
  if (files.size() < 2) {
    return TooFew(options.input_folder, files.size(), run.warnings);
  }
  base::ThreadPool pool(options.threads);
  const std::vector<LoadedRank> ranks = LoadRanks(files, config, pool, run);
  if (ranks.size() < 2) {
    return TooFew(options.input_folder, ranks.size(), run.warnings);
  }
  const std::vector<JoinedRow> joined = JoinRanks(ranks);
  if (joined.empty()) {
    return NotFoundError(options.config_file.string() +
                         ": none of the calls it names is in any of the results");
  }
  run.rank_count = ranks.size();
  run.row_count = joined.size();
  run.metrics = ranks.front().rows.metrics;
  std::deque<Table> sheets;
  for (size_t metric = 0; metric < run.metrics.size(); ++metric) {
    AppendSheets(ranks, joined, metric, sheets);
  }
  std::vector<const Table*> pointers;
  pointers.reserve(sheets.size());
  for (const Table& sheet : sheets) {
    pointers.push_back(&sheet);
  }
  MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                       base::RunStamp::Take(options.output_folder, base::TimestampNow()));
  run.result_file =
      options.output_folder / fmt::format("multi_ranks_compare_merge_{}.xlsx", stamp.text());
  report::XlsxOptions xlsx;
  xlsx.styled_header = true;
  MSP_RETURN_IF_ERROR(report::WriteXlsx(run.result_file, pointers, xlsx, pool));
  return run;
}

report::Document MakeDocument(const Summary& run) {
  report::Document document;
  document.command = "merge_result";
  const bool whole = run.dropped_ranks == 0;
  report::Verdict& verdict = document.verdict;
  verdict.word = whole ? "MERGED" : "MERGED IN PART";
  verdict.text = fmt::format(
      "{}: {}, {} each, {}{}", verdict.word, base::Plural(run.rank_count, "rank"),
      base::Plural(run.row_count, "row"), base::Plural(run.metrics.size(), "metric"),
      whole ? "" : fmt::format("; {} left out", base::Plural(run.dropped_ranks, "rank")));
  verdict.number = static_cast<double>(run.rank_count);
  verdict.unit = "ranks";
  verdict.tone = whole ? report::Tone::kStrong : report::Tone::kBad;
  // The workbook holds what could be merged; a rank that is missing in it is not a success.
  verdict.outcome = whole ? report::AnswerOutcome::kClean : report::AnswerOutcome::kIncomplete;
  report::List metrics{report::ListKind::kBullets, {}};
  for (const std::string& metric : run.metrics) {
    metrics.items.push_back({"", metric});
  }
  document.Add("Metrics, a sheet each", std::move(metrics));
  document.files.push_back({run.result_file});
  document.warnings = run.warnings;
  return document;
}

}  // namespace msprobe::analysis::compare::merge
