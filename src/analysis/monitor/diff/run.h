// Two monitored runs of the same training: the first step and module where they diverge.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/monitor/diff/options.h"
#include "src/analysis/monitor/diff/result.h"

namespace msprobe::analysis::monitor {

// With different ranks on both sides values of all ranks become one per name and step: norms as the
// root of the sum of squares over shards, min, max and amax as themselves, counts as sums, means,
// zeros and entropies of experts as averages. A rank whose statistics of a name are digit for digit
// those of another is a copy and counts once; of parameters, moments and reduced gradients so do
// ranks of one data-parallel group (monitor.json). Pipeline stages are kept apart.
Result<DiffResult> RunDiff(const DiffOptions& options);

}  // namespace msprobe::analysis::monitor
