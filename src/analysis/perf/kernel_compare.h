// Kernels of both sides by name and family, and the sheets KernelCompare and KernelTypeCompare:
// kernels of an NPU by type, from its own tables.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/perf/device_work.h"
#include "src/analysis/perf/options.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/profile/profile.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::perf {

// ---- Names of a GPU's kernels and runtime calls, NVIDIA's or AMD's ----

// Collectives of NCCL and RCCL, and those that serving engines write themselves.
bool IsCommunicationKernel(std::string_view name);
// Copies and fills that run as kernels ("__amd_rocclr_copyBuffer"), or that a profiler writes as
// such ("CopyHostToDevice").
bool IsCopyKernel(std::string_view name);
// cudaGraphLaunch, hipGraphLaunch, cuGraphLaunch.
bool IsGraphLaunch(std::string_view name);

// One spelling for both vendors: "hipLaunchKernel" becomes "cudaLaunchKernel", rccl nccl; other
// names stay as they are.
std::string NeutralName(std::string_view name);

// The work behind a kernel: "matmul", "attention", "convolution", "normalization", "softmax",
// "optimizer", "reduction", "elementwise", ...; "other" for names that say none. Copies are "copy",
// collectives "communication".
std::string_view KernelFamily(std::string_view name);

// For people: without "void", parameters, anonymous namespaces and long template arguments; at most
// `longest` characters.
std::string ShortKernelName(std::string_view name, size_t longest = 80);

// In labels "this in that": longer names of the outer operator are cut.
inline constexpr size_t kLongestNameAround = 1024;

// Kernels of both sides by name and family, on devices of any kind.

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

// Two NPUs only: warns otherwise, and where a step has no kernels. By type and input shapes, both
// sides needed; with options.use_kernel_type by type and core, one side is enough.
report::FormattedTable KernelCompare(const profile::Profile& base,
                                     const profile::Profile& comparison, const PairOptions& options,
                                     std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::perf
