// What making a trend store of tables and of dumps have in common.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/monitor/trend_store.h"

namespace msprobe::monitor {

// Texts in names and what replaces them, one pair after the other.
using NameMapping = std::vector<std::pair<std::string, std::string>>;

struct StoreOptions {
  std::filesystem::path data;    // a monitored run, or a dump
  std::filesystem::path output;  // folder for the store; a file that is there is replaced
  // Steps become a running number with as many places per step as its largest micro step asks for.
  // Otherwise they stay, and names keep their micro step. Dumps have no micro steps.
  bool number_micro_steps = true;
  NameMapping mapping;
  size_t threads = 0;  // to read tables with; 0: one per core
};

struct StoreResult {
  std::filesystem::path file;
  uint64_t rows = 0;
  size_t names = 0;
  size_t ranks = 0;
  std::vector<std::string> warnings;
};

// {"old": "new", ...}, in the order of the file.
Result<NameMapping> ReadMapping(const std::filesystem::path& path);
std::string Mapped(std::string name, const NameMapping& mapping);

inline constexpr const char* kMonitorStoreName = "monitor_data.trend.db";
inline constexpr const char* kDumpStoreName = "dump_data.trend.db";

// Before anything is read: whether the store may be written, by base/output_rule.h.
Status CheckStoreFile(const std::filesystem::path& folder, std::string_view name);

// Makes <folder>/<name> of what `fill` puts into it. Until it is whole the file has a name that no
// reader looks for; nothing is left of it, and what was there stays, when `fill` fails.
Result<std::filesystem::path> WriteStoreFile(const std::filesystem::path& folder,
                                             std::string_view name,
                                             const std::function<Status(TrendStore&)>& fill);

}  // namespace msprobe::monitor
