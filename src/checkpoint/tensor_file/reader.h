// A state dict in one file of any format that TensorFile opens.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/checkpoint/checkpoint.h"

namespace msprobe::checkpoint {

// An empty file is a warning, a file without any parameter of a model an error.
Result<Checkpoint> OpenTensorFile(const std::filesystem::path& file, const Options& options);

}  // namespace msprobe::checkpoint
