// compare.json, the Python tool's way to say what to compare.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/analysis/compare/options.h"

namespace msprobe::commands {

// Fills paths, stack_path and the MindSpore folder keys of `options` from the file. Unknown keys
// are warned about.
Status ReadCompareConfig(const std::filesystem::path& file, analysis::compare::Options& options);

}  // namespace msprobe::commands
