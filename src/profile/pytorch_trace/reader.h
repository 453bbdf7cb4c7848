// A trace that PyTorch's own profiler wrote of a GPU or a CPU.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/profile/profile.h"

namespace msprobe::profile {

// Plain or compressed (gzip), recognised by content. Fills in what `needs` asks for, and warns
// about what is missing of it.
Result<Profile> ReadPytorchTrace(const std::filesystem::path& file, const Needs& needs);

}  // namespace msprobe::profile
