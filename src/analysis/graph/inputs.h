// Which folders of the two sides stand beside each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::graph {

struct RankFolders {
  int64_t step = 0;
  int64_t rank = 0;
  std::filesystem::path npu;
  std::filesystem::path bench;  // empty: build only
};

struct InputPlan {
  std::vector<RankFolders> ranks;     // by step, then rank
  bool has_steps = false;             // the paths name whole dumps
  bool has_ranks = false;             // or steps
  std::vector<std::string> npu_only;  // folders without a partner, which are left out
  std::vector<std::string> bench_only;
  std::vector<std::string> warnings;  // these, too
};

// A path is the folder of a rank, of a step (rank<N>, or a sole "rank" or "proc<pid>") or of a
// whole dump (step<N>); both sides are of the same kind. Steps and ranks that only one side has are
// left out with a warning. kNotFound when nothing is left, or when a folder is not of these kinds.
Result<InputPlan> FindInputs(const std::filesystem::path& npu, const std::filesystem::path& bench);

}  // namespace msprobe::analysis::graph
