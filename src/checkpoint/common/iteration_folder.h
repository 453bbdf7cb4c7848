// Where a training run keeps its checkpoints: ROOT/iter_0000005, ROOT/release, and a tracker file
// that names the latest of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "msprobe/status.h"

namespace msprobe::checkpoint {

struct IterationFolder {
  std::filesystem::path folder;
  std::optional<int64_t> iteration;  // from the tracker, else from a folder name iter_NNNNNNN
};

// With latest_checkpointed_iteration.txt in `root`, the folder that it names ("release" included);
// without, `root` itself. An error names the folders that are there instead.
Result<IterationFolder> FindIterationFolder(const std::filesystem::path& root);

}  // namespace msprobe::checkpoint
