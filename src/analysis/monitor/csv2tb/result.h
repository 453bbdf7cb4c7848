// The event files that were written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace msprobe::analysis::monitor {

struct Csv2TbResult {
  std::filesystem::path output;
  size_t ranks = 0;
  size_t files = 0;
  uint64_t scalars = 0;
  std::vector<std::string> warnings;
};

}  // namespace msprobe::analysis::monitor
