// A trend store that was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace msprobe::analysis::monitor {

struct StoreResult {
  std::filesystem::path file;
  uint64_t rows = 0;
  size_t names = 0;
  size_t ranks = 0;
  size_t unread_files = 0;  // tables of the run that are left out or end early
  std::vector<std::string> warnings;
};

}  // namespace msprobe::analysis::monitor
