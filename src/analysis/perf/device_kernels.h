// Kernels of both sides by name and family, on devices of any kind.
#pragma once

#include <span>
#include <vector>

#include "src/analysis/perf/device_work.h"
#include "src/analysis/perf/options.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {

struct KernelComparison {
  // A row per family, then one per kernel, each by falling difference: calls, times, the operator
  // and shapes that most of its time belongs to, and whether it was added or removed.
  report::FormattedTable table;
  std::vector<KernelChange> families;
  std::vector<KernelChange> kernels;  // the `most` that changed most
};

// All work on the device but an NPU's collectives; equal names but for the vendor's prefix match.
KernelComparison CompareDeviceKernels(const DeviceWork& base, const DeviceWork& comparison,
                                      const PairOptions& options, size_t most = 20);

}  // namespace msprobe::analysis::perf
