// What merge_result reads: its config, the files of a folder, and the rows of one rank's result.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/pair_result.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare::merge {

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
// By rank number; of several results of one rank the newest. Files that are no result of a numbered
// rank are warnings, or an error where they have no business in such a folder.
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

}  // namespace msprobe::analysis::compare::merge
