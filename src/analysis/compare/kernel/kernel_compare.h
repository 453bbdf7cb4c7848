// Comparisons in which a side is a kernel dump: kernels with kernels, and kernels with the API call
// that they belong to.
#pragma once

#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/kernel/kernel_side.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pairing.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// One pair of what is compared with what.
struct KernelPlan {
  struct Pair {
    PlannedPair planned;
    KernelRun npu;
    KernelRun bench;  // without files: planned.input.bench_json is the dump of the call
  };
  std::vector<Pair> pairs;
  std::vector<std::string> npu_only;
  std::vector<std::string> bench_only;
};

// options.npu_path leads to kernel dumps; options.bench_path to kernel dumps, or to an ordinary
// dump that has the call. Steps and devices pair by number, and where either side has one of them
// only whatever the number. kUsage when only the bench side is a kernel dump.
Result<KernelPlan> PlanKernels(const Options& options);

// Kernels of equal type and name pair in the order in which they ran, their tensors by direction
// and number.
//
// With the dump of a call (options.kernel_call names it, or the only one whose tensors are all
// found) each tensor of the call has the kernel tensor beside it that has its shape and the nearest
// statistics: of inputs the first such, of outputs the last. Other kernel tensors have no row.
Result<ComparedPair> CompareKernels(const Options& options, const KernelPlan::Pair& pair,
                                    base::ThreadPool& pool);

}  // namespace msprobe::analysis::compare
