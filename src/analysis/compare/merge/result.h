// What merging the results of many ranks came to; the tables themselves are in the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace msprobe::analysis::compare::merge {

struct Summary {
  std::filesystem::path result_file;
  size_t rank_count = 0;
  size_t dropped_ranks = 0;          // have a result that cannot be merged; see warnings
  size_t row_count = 0;              // per metric
  std::vector<std::string> metrics;  // one sheet each
  std::vector<std::string> warnings;
};

}  // namespace msprobe::analysis::compare::merge
