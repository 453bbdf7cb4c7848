// msprobe run_ut and acc_check with is_online: operators of a running training, which come over a
// connection or a shared folder, are run here and judged.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/accuracy/online/options.h"
#include "src/analysis/accuracy/online/result.h"

namespace msprobe::analysis::accuracy {

// Returns when all expected trainings have ended, or `is_stopped` says so. Rows of a rank appear in
// its files in the order of its calls, whatever the number of workers.
Result<OnlineCheck> Run(const OnlineOptions& options);

}  // namespace msprobe::analysis::accuracy
