// Why a device had nothing to do. A gap is charged to what the thread did that launched the next
// work: other threads may have been busy, but the device was not waiting for them.
#pragma once

#include <map>
#include <string>

#include "src/analysis/perf/device_work.h"
#include "src/analysis/perf/work_groups.h"

namespace msprobe::analysis::perf {

// The time in which nothing ran on the device, by what the host did meanwhile in the thread that
// launched the next work; the sum is TimeSplit::idle. `calls` counts gaps.
std::map<std::string, Amount> IdleTimeByCause(const DeviceWork& work);

}  // namespace msprobe::analysis::perf
