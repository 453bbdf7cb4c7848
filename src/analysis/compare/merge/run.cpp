#include "src/analysis/compare/merge/run.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/merge/input.h"
#include "src/analysis/compare/result_table.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/report/sheet_parts.h"
#include "src/report/writers.h"

namespace msprobe::analysis::compare::merge {
namespace {

using report::Cell;
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

// Which row of each rank stands in each row of the result.
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

}  // namespace msprobe::analysis::compare::merge
