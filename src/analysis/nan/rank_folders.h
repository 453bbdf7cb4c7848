// The folders of a step's ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::nan {

struct RankPath {
  int64_t rank = 0;
  std::filesystem::path folder;
};

struct StepFolder {
  std::filesystem::path folder;
  std::optional<int64_t> step;
  std::vector<RankPath> ranks;        // by number; with a dump
  std::vector<std::string> warnings;  // ranks without one
};

// "rank" is rank 0, and so is a sole "proc..." folder. Accepts a step's folder, a rank's folder, a
// dump.json and the folder of one step.
Result<StepFolder> FindStep(const std::filesystem::path& path);
// All steps of a dump, by number.
Result<std::vector<StepFolder>> FindSteps(const std::filesystem::path& path);

}  // namespace msprobe::analysis::nan
