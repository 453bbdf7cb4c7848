// The whole of `compare`: finds the pairs, compares each, writes the files, sums up. Never prints.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/analysis/compare/options.h"
#include "src/analysis/compare/result.h"

namespace msprobe::analysis::compare {

// Not ok when nothing could be compared at all. A pair that fails among several is recorded in its
// summary; the others go on.
Result<Comparison> Run(const Options& options);

// summary.json into the output folder; returns its path.
Result<std::filesystem::path> WriteSummary(const Options& options, const Comparison& run,
                                           int exit_code);

}  // namespace msprobe::analysis::compare
