// Sheets KernelCompare and KernelTypeCompare: kernels of an NPU by type, from its own tables.
#pragma once

#include <string>
#include <vector>

#include "src/analysis/perf/options.h"
#include "src/profile/profile.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {

// Two NPUs only: warns otherwise, and where a step has no kernels. By type and input shapes, both
// sides needed; with options.use_kernel_type by type and core, one side is enough.
report::FormattedTable KernelCompare(const profile::Profile& base,
                                     const profile::Profile& comparison, const PairOptions& options,
                                     std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::perf
