// Which run is followed, and how far back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace msprobe::analysis::monitor {

struct FollowOptions {
  std::filesystem::path root;
  std::string op;              // the statistic that is judged; empty: MainOp of every table
  int64_t window_steps = 200;  // files that end earlier before the newest step are not read
};

}  // namespace msprobe::analysis::monitor
