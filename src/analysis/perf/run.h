// A whole run of perf_compare: finds the profiles of both paths, pairs them by rank, compares each
// pair, writes the files.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/perf/options.h"
#include "src/analysis/perf/result.h"

namespace msprobe::analysis::perf {

// A single pair that cannot be compared is an error; one of many is marked and the others go on.
// Memory holds one pair of profiles at a time, and a summary of each pair. Under a launcher (srun,
// mpirun) each process compares its share of the pairs, and the first one collects the summaries.
Result<RunResult> Run(const Options& options);

}  // namespace msprobe::analysis::perf
