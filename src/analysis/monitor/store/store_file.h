// The file of a trend store: under its name only when it is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "msprobe/status.h"

#include "src/monitor/trend_store.h"

namespace msprobe::analysis::monitor {

inline constexpr const char* kMonitorStoreName = "monitor_data.trend.db";
inline constexpr const char* kDumpStoreName = "dump_data.trend.db";

// Before anything is read: whether the store may be written, by base/output_rule.h.
Status CheckStoreFile(const std::filesystem::path& folder, std::string_view name);

// Makes <folder>/<name> of what `fill` puts into it. Until it is whole the file has a name that no
// reader looks for; nothing is left of it, and what was there stays, when `fill` fails.
Result<std::filesystem::path> WriteStoreFile(
    const std::filesystem::path& folder, std::string_view name,
    const std::function<Status(msprobe::monitor::TrendStore&)>& fill);

}  // namespace msprobe::analysis::monitor
