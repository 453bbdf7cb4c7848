// Tables of a monitored run as a trend store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::monitor {

struct StoreOptions {
  std::filesystem::path run;
  std::filesystem::path
      output;  // folder for monitor_data.trend.db; a file that is there is replaced
  // Steps become a running number with as many places per step as its largest micro step asks for.
  // Otherwise they stay, and names keep their micro step.
  bool number_micro_steps = true;
  // Texts in names and what replaces them, one pair after the other.
  std::vector<std::pair<std::string, std::string>> mapping;
  size_t threads = 0;  // 0: one per core
};

struct StoreResult {
  std::filesystem::path file;
  uint64_t rows = 0;
  size_t names = 0;
  size_t ranks = 0;
  std::vector<std::string> warnings;
};
Result<StoreResult> ConvertToStore(const StoreOptions& options);

// {"old": "new", ...}, in the order of the file.
Result<std::vector<std::pair<std::string, std::string>>> ReadMapping(
    const std::filesystem::path& path);

}  // namespace msprobe::monitor
