// A dump as a trend store: the statistics of its tensors by rank and step.
#pragma once

#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/monitor/store_file.h"

namespace msprobe::monitor {

// Writes dump_data.trend.db of whatever dump::FindDump accepts, one dump.json after the other and
// one entry at a time; memory grows with the number of different names only. Files that are cut off
// or broken give the entries in front of that place, told in the warnings. kNotFound when there is
// no dump.json; an error, too, when none of them holds statistics.
Result<StoreResult> ConvertDumpToStore(const StoreOptions& options);

// Of the name of a tensor of a dump, "Module.layers.0.fc.Linear.forward.0.input.0": default
// "Module", module "layers" and "fc", layer "layers.0", function "Linear", index "input.0".
std::vector<TrendStore::NameTag> TagsOfDumpName(std::string_view name);

}  // namespace msprobe::monitor
