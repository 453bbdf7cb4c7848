// Folders as Hugging Face's libraries write them, model*.safetensors or
// pytorch_model*.bin with or without an index.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/checkpoint/checkpoint.h"

namespace msprobe::checkpoint {

// Facts about the model come from config.json where there is one.
Result<Checkpoint> OpenHuggingFace(const std::filesystem::path& folder, const Options& options);

bool LooksLikeHuggingFace(const std::filesystem::path& folder);

}  // namespace msprobe::checkpoint
