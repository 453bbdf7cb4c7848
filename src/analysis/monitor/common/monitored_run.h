// A monitored run as its folders hold it: what diff, report and the converters read. All of it is
// in memory, one column of doubles per statistic, because each of them needs whole series while the
// files go by step; `top`, which watches runs of any length, has a window instead.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/monitor/output_folder.h"

namespace msprobe::analysis::monitor {

// The folders that the ranks of a monitored run wrote, and the tables in them.

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

// One name of one table: "actv", stage 0, "0.norm1.output", micro step 0.
struct Series {
  std::string table;
  int32_t stage = 0;
  std::string name;
  int32_t micro_step = -1;  // -1: the table has none
  uint32_t order = 0;       // place among all series by first appearance: modules as they first ran
  // Columns of numbers, all of the same length as steps: (steps[i], ranks[i]) is one row of the
  // CSV, ascending by step, then rank. A later row of the same step and rank wins.
  std::vector<int64_t> steps;
  std::vector<int32_t> ranks;
  // By op: "norm", ... kNoNumber (table_rows.h) where nothing was measured.
  std::map<std::string, std::vector<double>, std::less<>> values;
};

struct Alert {
  std::string key;
  int64_t rank = 0;
  int64_t step = 0;
  std::string tag;
  std::string message;
};

struct MonitoredRun {
  std::filesystem::path root;
  std::vector<RankFolder> folders;
  std::vector<Series> series;  // by table, stage, name (numbers in names compare as numbers), micro
  std::vector<Alert> alerts;   // of anomaly_detected, by step, then rank
  // Ops of each table in the order of its columns.
  std::map<std::string, std::vector<std::string>, std::less<>> ops;
  // Lines that could not be read, files that were cut: "path:line: why", at most 20 and a count.
  std::vector<std::string> warnings;
  // "name of table", see LeaveOutUnmeasured.
  std::vector<std::string> unmeasured;
  size_t unread_files = 0;  // of which nothing or only the beginning could be read
  uint64_t rows = 0;
};

struct ReadOptions {
  FindOptions find;
  std::vector<std::string> tables;  // empty: all
  std::vector<std::string> ops;     // empty: all that are numbers
  size_t threads = 0;               // 0: one per core
};
// All folders at once on the threads of the process; a broken row is a warning, not the end, and so
// is a file that cannot be read unless there is no other (kIo). The last line of a file without a
// line end is of a writer at work or dead: left out, not warned.
Result<MonitoredRun> ReadMonitoredRun(const std::filesystem::path& root,
                                      const ReadOptions& options = {});

// For who shows a run: takes out the rows, columns and series in which nothing was measured, as of
// gradients that are absent, and lists the series among `unmeasured`.
void LeaveOutUnmeasured(MonitoredRun& run);

// The root module has no name: its rows are called ".input".
std::string ShownName(std::string_view name);

}  // namespace msprobe::analysis::monitor
