// msprobe api_precision_compare: whether an NPU is no less accurate than a GPU, operator by
// operator, from the details files of both accuracy checks.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/accuracy/precision_compare/options.h"
#include "src/analysis/accuracy/precision_compare/result.h"

namespace msprobe::analysis::accuracy {

Result<PrecisionComparison> Run(const PrecisionOptions& options);

}  // namespace msprobe::analysis::accuracy
