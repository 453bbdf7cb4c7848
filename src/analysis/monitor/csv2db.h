// Tables of a monitored run as a trend store.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/monitor/store_file.h"

namespace msprobe::monitor {

// Writes monitor_data.trend.db. kNotFound when there is no monitored run.
Result<StoreResult> ConvertToStore(const StoreOptions& options);

}  // namespace msprobe::monitor
