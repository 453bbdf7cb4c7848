// Which two runs are compared, and when two of their numbers count as different.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace msprobe::analysis::monitor {

struct DiffOptions {
  std::filesystem::path a;
  std::filesystem::path b;
  // Two numbers differ when they are further apart than atol + rtol * the larger magnitude; NaN
  // differs from everything but NaN.
  double rtol = 1e-3;
  double atol = 1e-5;
  std::vector<std::string> tables;  // empty: all
  std::vector<std::string> ops;     // empty: all
  // Values of all ranks become one before they are compared, also where the ranks are the same.
  bool reduce = false;
  size_t threads = 0;
};

}  // namespace msprobe::analysis::monitor
