// merge_result: one table per metric of the comparison results of many ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/pair_result.h"
#include "src/report/document.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare::merge {

struct Options {
  std::filesystem::path
      input_folder;  // holds compare_result_rank<N>_<stamp>.xlsx or .csv; not searched below
  std::filesystem::path output_folder;  // created when missing
  std::filesystem::path config_file;    // YAML: api, compare_index
  size_t threads = 0;                   // 0: all cores
};

// The result of merging the results of many ranks; the tables themselves are in the file.

struct Summary {
  std::filesystem::path result_file;
  size_t rank_count = 0;
  size_t dropped_ranks = 0;          // have a result that cannot be merged; see warnings
  size_t row_count = 0;              // per metric
  std::vector<std::string> metrics;  // one sheet each
  std::vector<std::string> warnings;
};

// Inputs: the config, the files of a folder, and the rows of one rank's result.

struct MergeConfig {
  std::vector<std::string> apis;     // prefixes of calls, never empty
  std::vector<std::string> metrics;  // as the user lists them, each once; empty: all
};
Result<MergeConfig> LoadMergeConfig(const std::filesystem::path& path);

// The rank in the name of a result file: "compare_result_rank3_20250101000000.xlsx", also with
// "rank3-rank3". Unrecognized names give nullopt.
struct RankFileName {
  std::optional<int64_t> rank;  // nullopt for "rank" without a number
  std::string stamp;            // 14 digits
  bool is_csv = false;
};
std::optional<RankFileName> ParseRankFileName(std::string_view name);

struct RankFile {
  int64_t rank = 0;
  std::string stamp;  // "20250101000000", or "20250101000000_1" of a further run in that second
  std::filesystem::path path;
  bool is_csv = false;
};
// By rank number; of several results of one rank the newest. Files that are not the result of a
// numbered rank are warnings, or an error where they have no business in such a folder.
Result<std::vector<RankFile>> FindRankFiles(const std::filesystem::path& folder,
                                            std::vector<std::string>& warnings);

struct MergedRow {
  std::string_view name;                         // NPU name
  uint32_t occurrence = 0;                       // 0 for the first row of this name
  std::array<report::Cell, kMetricSlots> cells;  // by index into RankRows::metrics
};

// The rows of one rank's result that the configured calls own.
struct RankRows {
  CompareMode mode = CompareMode::kStatistics;
  std::vector<std::string> metrics;  // sheets to make of it
  std::vector<MergedRow> rows;       // calls in config order, rows of a call in table order
  std::vector<bool> api_found;       // per configured call
  uint64_t formula_like_texts = 0;
  std::unique_ptr<report::TextArena> arena = std::make_unique<report::TextArena>();
};
// kUnsupported for results of checksums, kMismatch when a metric is asked for that the mode does
// not have, kUsage for more metrics than a row has places for.
Result<RankRows> ReadRankRows(const RankFile& file, const MergeConfig& config);

// One table per metric over the comparison results of many ranks: how a collective call went on
// each of them.

// Reads the ranks' results and writes multi_ranks_compare_merge_<stamp>.xlsx. A file that does not
// fit the others (other mode, metric missing, checksums) is a warning; fewer than two that fit are
// an error and write nothing.
Result<Summary> Run(const Options& options);

report::Document MakeDocument(const Summary& run);

}  // namespace msprobe::analysis::compare::merge
