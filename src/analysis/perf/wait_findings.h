// What the device did instead of computing: collectives, copies, and waiting for the host.
#pragma once

#include <vector>

#include "src/analysis/perf/device_work.h"
#include "src/analysis/perf/options.h"
#include "src/analysis/perf/pair_comparison.h"

namespace msprobe::analysis::perf {

// By kind of collective (or, where the options ask for it, by kernel); the time that no computing
// hides, in ms. Unsorted, as the two below.
std::vector<Finding> CommunicationFindings(const DeviceWork& base, const DeviceWork& comparison,
                                           const PairOptions& options);

// By kind of copy or fill and the operator that asked for it; the time that nothing else hides.
std::vector<Finding> CopyFindings(const DeviceWork& base, const DeviceWork& comparison);

// By what the host did, in the thread that launched the next work, while the device had none.
std::vector<Finding> IdleFindings(const DeviceWork& base, const DeviceWork& comparison);

}  // namespace msprobe::analysis::perf
