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

// Names of the files of Run: of `dump` ("MatMul.x.4.1.17...") what is converted of it.
//   layout of the device   <dump>.input.0.npy
//   another one            <dump>.input.0.2x3x4.npy, <dump>.input.0.2_3_4.<dtype>.<FORMAT>.bin

}  // namespace msprobe::analysis::kernel_dump
