// BASE+ADAPTER as a checkpoint: base weights with a low-rank adapter of peft added, W + s B A,
// which is computed block by block in double precision where it is compared.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "msprobe/status.h"

#include "src/checkpoint/checkpoint.h"

namespace msprobe::checkpoint {

// The halves of a path, split at the last '+' of which both exist. A path that exists is not
// split, whatever its name.
std::optional<std::pair<std::filesystem::path, std::filesystem::path>> SplitAtAdapter(
    const std::filesystem::path& path);

// `base` with the adapter in `folder` merged into it. Parameters whose adapter does not fit cannot
// be read; adapters of another kind than LoRA, rsLoRA and DoRA are refused by name.
Status MergeAdapter(const std::filesystem::path& folder, const Options& options, Checkpoint& base);

}  // namespace msprobe::checkpoint
