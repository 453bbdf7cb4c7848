// The page of `ckpt_compare --format html`: layers by kinds of parameters as a map, and the figures
// of each.
#pragma once

#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/ckpt/result.h"

namespace msprobe::analysis::ckpt {

// What does not fit into the page becomes a warning of the comparison.
// `files`: what the run writes, the page too.
Status WritePage(const std::filesystem::path& path, const std::vector<std::filesystem::path>& files,
                 Comparison& comparison);

}  // namespace msprobe::analysis::ckpt
