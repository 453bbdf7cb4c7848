// Every computing kernel to the kind of work it does: by the operator that launched it where that
// says so, else by what the kernel itself is called.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/analysis/perf/overall_times.h"
#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

// Adds the kernels' times to the buckets of `times`, in microseconds: the caller scales them.
void SortGpuKernels(const profile::Profile& side, const std::vector<uint32_t>& kernels,
                    OverallTimes& times);
// All rows of the kernel details, kernels that compute and communicate in one too.
void SortNpuKernels(const profile::Profile& side, OverallTimes& times);

}  // namespace msprobe::analysis::perf
