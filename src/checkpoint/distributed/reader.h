// Inside of the room: torch distributed checkpoints, a folder with .metadata and *.distcp (FSDP's,
// Megatron's torch_dist).
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/checkpoint/checkpoint.h"

namespace msprobe::checkpoint {

// Chunks are put in their places by views; each file is mapped once. A chunk that cannot be read is
// a matter of its parameter.
Result<Checkpoint> OpenDistributed(const std::filesystem::path& folder, const Options& options);

// True where the folder, or the iteration folder its tracker names, has a .metadata.
bool LooksLikeDistributed(const std::filesystem::path& folder);

}  // namespace msprobe::checkpoint
