// Dump files of a device to arrays that NumPy and PyTorch read.
#pragma once

#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/kernel_dump/options.h"
#include "src/analysis/kernel_dump/result.h"

namespace msprobe::analysis::kernel_dump {

// kNotFound when there is nothing to convert, kUsage when a result exists that may not be replaced.
// A file or tensor that cannot be read is told in the findings, and the others go on. Results do
// not depend on the number of threads.
Result<Findings> Run(const Options& options);

}  // namespace msprobe::analysis::kernel_dump
