// Folders of .npy files from single-point saves: every folder against the folder of the same
// relative path.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/compare/array_pair.h"
#include "src/analysis/compare/options.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// Files are grouped by name without dtype and number ("out_float32_3.npy" -> "out"), groups paired
// by name or by options.common_map, files within a group by their numbers. One result.csv per
// folder.
Result<FolderComparison> CompareCommonFolders(const Options& options, base::ThreadPool& pool);

}  // namespace msprobe::analysis::compare
