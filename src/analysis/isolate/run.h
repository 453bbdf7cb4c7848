// The tables of an isolated run, read together.
#pragma once

#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/isolate/options.h"
#include "src/analysis/isolate/result.h"

namespace msprobe::analysis::isolate {

// A table that cannot be read is a warning as long as another one can be. No tables at all: a
// result without comparisons.
Result<Verdicts> Run(const Options& options);

// isolate.csv of all steps and ranks below a folder, or with `unfinished` isolate.csv.part.
Result<std::vector<std::filesystem::path>> TablesIn(const std::filesystem::path& folder,
                                                    bool unfinished = false);

}  // namespace msprobe::analysis::isolate
