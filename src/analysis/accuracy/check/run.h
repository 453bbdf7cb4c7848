// msprobe run_ut, acc_check and their forms with several workers: every recorded operator is run on
// a device and on the CPU, and judged.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/check/result.h"

namespace msprobe::analysis::accuracy {

// Rows appear in the result files in file order while the run goes on, whatever the number of
// workers; they do not depend on it.
Result<Check> Run(const CheckOptions& options);

// Whether every name of the white and black list is one of an operator.
Status CheckLists(const CheckOptions& options);

// Forward only, in the recorded dtypes on both sides; writes no file.
Result<OverflowCheck> RunOverflowCheck(const CheckOptions& options);

}  // namespace msprobe::analysis::accuracy
