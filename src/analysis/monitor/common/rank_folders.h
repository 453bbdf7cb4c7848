// The folders that the ranks of a monitored run wrote, and the tables in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/monitor/rank_topology.h"

namespace msprobe::analysis::monitor {

// One folder "<stamp>-rank<R>-<id>".
struct RankFolder {
  std::filesystem::path path;
  std::string stamp;  // "Nov21_09-58-35", Asia/Shanghai
  int64_t rank = 0;
  // From monitor.json beside the tables.
  std::optional<msprobe::monitor::RankTopology> topology;
  // What its numbers are whole multiples of; 0: none, small ones keep significant digits. nullopt:
  // not known, as of the Python tool.
  std::optional<double> rounding;
};

struct FindOptions {
  std::string time_start;  // a stamp; empty: open
  std::string time_end;
};
// Folders of `root` whose name has the pattern, by rank, then stamp (the turn of a year, which
// stamps do not tell, is seen by a gap of more than half a year). `root` may itself be one. An
// error names what was looked for when there is none.
Result<std::vector<RankFolder>> FindRankFolders(const std::filesystem::path& root,
                                                const FindOptions& options = {});

// "<table>_<first>-<last>.csv" of a folder, by table, then first.
struct TableFile {
  std::filesystem::path path;
  std::string table;
  int64_t first_step = 0;
  int64_t last_step = 0;
};
std::vector<TableFile> FindTableFiles(const std::filesystem::path& folder);

}  // namespace msprobe::analysis::monitor
