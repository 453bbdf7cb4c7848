// The answer of a comparison of two monitored runs as its own JSON, for `--json`.
#pragma once

#include <string>

#include "src/analysis/monitor/diff/options.h"
#include "src/analysis/monitor/diff/result.h"

namespace msprobe::analysis::monitor {

// One JSON object.
std::string DiffJson(const DiffOptions& options, const DiffResult& result);

}  // namespace msprobe::analysis::monitor
