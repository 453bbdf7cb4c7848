// Which tables of a run become event files, and where they go.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/monitor/common/rank_folders.h"

namespace msprobe::analysis::monitor {

struct Csv2TbOptions {
  std::filesystem::path run;
  FindOptions find;
  std::vector<std::string> tables;  // empty: EventTables()
  std::filesystem::path output;     // empty: <run>/<now>-csv2tensorboard_by_step
  size_t threads = 0;               // 0: one per core
};

// The tables that are converted unless others are asked for, and all that may be asked for.
const std::vector<std::string>& EventTables();
const std::vector<std::string>& KnownTables();

}  // namespace msprobe::analysis::monitor
