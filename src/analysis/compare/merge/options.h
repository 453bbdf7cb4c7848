// What merging the results of many ranks is asked to do.
#pragma once

#include <cstddef>
#include <filesystem>

namespace msprobe::analysis::compare::merge {

struct Options {
  std::filesystem::path
      input_folder;  // holds compare_result_rank<N>_<stamp>.xlsx or .csv; not searched below
  std::filesystem::path output_folder;  // created when missing
  std::filesystem::path config_file;    // YAML: api, compare_index
  size_t threads = 0;                   // 0: all cores
};

}  // namespace msprobe::analysis::compare::merge
