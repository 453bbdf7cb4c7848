// One table per metric over the comparison results of many ranks: how a collective call went on
// each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/base/thread_pool.h"

namespace msprobe::analysis {

struct MergeOptions {
  std::filesystem::path
      input_folder;  // holds compare_result_rank<N>_<stamp>.xlsx or .csv; not searched below
  std::filesystem::path output_folder;  // created when missing
  std::filesystem::path config_file;    // YAML: api, compare_index
  size_t threads = 0;                   // 0: all cores
};

struct MergeRun {
  std::filesystem::path result_file;
  size_t rank_count = 0;
  size_t dropped_ranks = 0;          // have a result that cannot be merged; see warnings
  size_t row_count = 0;              // per metric
  std::vector<std::string> metrics;  // one sheet each
  std::vector<std::string> warnings;
};

// Reads the ranks' results and writes multi_ranks_compare_merge_<stamp>.xlsx. A file that does not
// fit the others (other mode, metric missing, checksums) is a warning; fewer than two that fit are
// an error and write nothing.
Result<MergeRun> MergeResults(const MergeOptions& options);

// The rank in the name of a result file: "compare_result_rank3_20250101000000.xlsx", also with
// "rank3-rank3". Unrecognized names give nullopt.
struct RankFileName {
  std::optional<int64_t> rank;  // nullopt for "rank" without a number
  std::string stamp;            // 14 digits
  bool is_csv = false;
};
std::optional<RankFileName> ParseRankFileName(std::string_view name);

}  // namespace msprobe::analysis
