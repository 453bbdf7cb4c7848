// Folders of DeepSpeed: a tracker "latest" that names the folder of a step, in which the ranks keep
// model and optimizer states. With ZeRO 1 and 2 the model states hold the whole model; with ZeRO 3
// every rank holds its part of each parameter in float32, one after the other.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/checkpoint/checkpoint.h"

namespace msprobe::checkpoint {

bool LooksLikeDeepSpeed(const std::filesystem::path& folder);

// The folder with the tracker, or that of a step. Tensor and pipeline parallel models are refused;
// the hint says how to make a file of them.
Result<Checkpoint> OpenDeepSpeed(const std::filesystem::path& folder, const Options& options);

}  // namespace msprobe::checkpoint
