// What is asked of a comparison of two runs' gradient directions.
#pragma once

#include <cstddef>
#include <filesystem>

namespace msprobe::analysis::grad {

struct Options {
  std::filesystem::path first;
  std::filesystem::path second;
  std::filesystem::path output = "./msprobe_compare_output";
  // A step stands out when fewer signs agree than this at the first step, ...
  double min_similarity = 0.97;
  // ... or when the share has dropped by more than this since the step before.
  double max_drop = 0.03;
  size_t threads = 0;
  bool quiet = false;
};

}  // namespace msprobe::analysis::grad
