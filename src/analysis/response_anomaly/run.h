// A whole search for anomalous responses: lines in, rows out as they are judged.
#pragma once

#include <functional>

#include "msprobe/status.h"

#include "src/analysis/response_anomaly/options.h"
#include "src/analysis/response_anomaly/result.h"

namespace msprobe::analysis::response_anomaly {

// `on_row` hears of every line that is not blank, before the next one is read; an error of it ends
// the run. A line that is no request is a row with an error, and the search goes on.
using OnRow = std::function<Status(const Row& row)>;
Result<Findings> Run(const Options& options, const OnRow& on_row = nullptr);

}  // namespace msprobe::analysis::response_anomaly
