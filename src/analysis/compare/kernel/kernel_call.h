// The API call that kernels belong to: which one it is, and which kernel tensor each of its tensors
// is.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/kernel/kernel_side.h"
#include "src/analysis/compare/options.h"

namespace msprobe::analysis::compare {

// Fills compared.bench and compared.mapping, and leaves of `kernels` the rows that stand for a
// tensor of the call. What was found is said in compared.call. kUsage when the call has to be
// named, kNotFound when the dump does not have it, kMismatch when no tensor of it fits a kernel.
Status LoadCallOfKernels(const Options& options, const std::filesystem::path& json,
                         KernelSide& kernels, ComparedPair& compared);

}  // namespace msprobe::analysis::compare
