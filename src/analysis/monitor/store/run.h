// Tables of a monitored run, or the statistics of a dump, as a trend store.
#pragma once

#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/monitor/store/options.h"
#include "src/analysis/monitor/store/result.h"
#include "src/monitor/trend_store.h"

namespace msprobe::analysis::monitor {

// Writes monitor_data.trend.db. kNotFound when there is no monitored run.
Result<StoreResult> RunCsv2Db(const StoreOptions& options);

// Writes dump_data.trend.db of whatever dump::FindDump accepts, one dump.json after the other and
// one entry at a time; memory grows with the number of different names only. Files that are cut off
// or broken give the entries in front of that place, told in the warnings. kNotFound when there is
// no dump.json; an error, too, when none of them holds statistics.
Result<StoreResult> RunDump2Db(const StoreOptions& options);

// Of the name of a tensor of a dump, "Module.layers.0.fc.Linear.forward.0.input.0": default
// "Module", module "layers" and "fc", layer "layers.0", function "Linear", index "input.0".
std::vector<msprobe::monitor::TrendStore::NameTag> TagsOfDumpName(std::string_view name);

}  // namespace msprobe::analysis::monitor
