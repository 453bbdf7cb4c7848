// Level L2: the runtime's own dump of kernels, switched on and off around one call.
#pragma once

#include "msprobe/status.h"

#include "src/capture/step_folder.h"

namespace msprobe::capture {

// Writes kernel_config.json (kernel_config_{rank}.json) into the folder of the step and switches
// the dump on; the runtime writes its files below the same folder. kDevice where no runtime can.
Status BeginKernelDump(const StepPlace& place);
Status EndKernelDump();

}  // namespace msprobe::capture
