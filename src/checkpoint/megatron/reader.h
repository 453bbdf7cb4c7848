// Inside of the room: Megatron's checkpoints, a folder mp_rank_* of model_optim_rng.pt for every
// rank.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/checkpoint/checkpoint.h"

namespace msprobe::checkpoint {

// The parameters of the whole model, put together of what the ranks hold. Ranks that are missing
// are an error unless options.allow_missing_ranks.
Result<Checkpoint> OpenMegatron(const std::filesystem::path& folder, const Options& options);

// True where the folder, or the iteration folder its tracker names, has rank folders; also where
// the tracker leads nowhere, so that opening says what is wrong with it.
bool LooksLikeMegatron(const std::filesystem::path& folder);

}  // namespace msprobe::checkpoint
