// Workers as the options of a check want them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/check/worker.h"

namespace msprobe::analysis::accuracy {

using WorkerPointer = std::unique_ptr<Worker>;

// Of worker `number` of `workers`, which share the cores and take the devices in turn.
WorkerOptions WorkerOptionsOf(const CheckOptions& options, const std::string& python, size_t number,
                              size_t workers);

// The first of `workers`, running, and the Python that it runs in. An error tells of every Python
// why it cannot be used; a warning, what of a worker's confinement the system does not allow.
Result<WorkerPointer> StartFirst(const CheckOptions& options, size_t workers, std::string& python,
                                 std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::accuracy
