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
  size_t unread_files = 0;  // tables of the run that are left out or end early
  std::vector<std::string> warnings;
};

}  // namespace msprobe::analysis::monitor
