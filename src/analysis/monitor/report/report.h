// The answer of `monitor report`, beside its page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/monitor/common/monitored_run.h"
#include "src/analysis/monitor/common/table_rows.h"
#include "src/base/threads.h"
#include "src/json/writer.h"
#include "src/report/document.h"

namespace msprobe::analysis::monitor {

// The runs that are shown, and how large their page may be.

struct ReportOptions {
  std::filesystem::path run;
  std::filesystem::path other;  // empty: one run
  std::filesystem::path output = "report.html";
  ReadOptions read;  // which part of both
  // Limit of the file. Statistics that do not fit are left out, the least informative first, with a
  // warning that is shown on the page, too.
  uint64_t most_bytes = 64'000'000;
};

// What the page shows, in figures.

struct ReportResult {
  // Counts of the first run:
  uint64_t series = 0;
  uint64_t ranks = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  // Counts of both runs:
  uint64_t rows = 0;
  uint64_t alerts = 0;  // broken laws are among them
  uint64_t broken_laws = 0;
  uint64_t non_finite = 0;  // numbers
  size_t unread_files = 0;  // tables that are left out or end early
  std::vector<std::string> warnings;
  uint64_t size_bytes = 0;
};

// From the tag of an alert to the series it is about.

// Borrows names from the run.
class AlertSeriesFinder {
 public:
  explicit AlertSeriesFinder(const MonitoredRun& run);
  // Index into run.series of "0:0.norm1.output:0/rank0/actv"; -1: the run has no such series.
  int64_t Find(std::string_view tag) const;

 private:
  using Key = std::tuple<std::string_view, int32_t, std::string_view, int32_t>;
  int64_t FindKey(const Key& key) const;

  std::map<Key, int64_t> series_;
};

// Numbers as bytes that compress well and that a browser reads back with exact arithmetic: the
// columns inside of a report's page (decoded by tools/web/monitor_report/column_code.js).

// One statistic of one series.
struct ColumnToCode {
  std::span<const double> values;  // empty: the series lacks the statistic
  // Another distance at which values resemble each other: that of the same step on the rank before.
  // 0: none.
  uint32_t rank_distance = 0;
};

// Appends a block:
//   per column 4 bytes: kind, distance (0 none, 1 the value before, 2 rank_distance), planes, 0
//   per plane 0 .. 7, per column that has it: one byte of every value's code, the lowest first
// A code is 0 NaN, 1 +infinity, 2 -infinity, else 3 + zigzag of the difference of two integers k:
// the value's own and that at the distance before (0 at the start). A non-finite value takes the k
// before over. Kinds tell what k is:
//   0 .. 15  value = k / 10^kind, exactly: the monitor rounds to a number of digits
//   16       the value as float32, its bits as an integer that rises with the value
//   17       no k: the 8 bytes of the double itself, codes without the 3 above
//   255      no values
// A column of decimals takes kind 16 where that needs fewer bits, which keeps 7 digits; of values
// beyond float32's range kind 17.
void AppendColumns(std::span<const ColumnToCode> columns, std::string& out);

// A run as the report's page takes it: what is listed (as JSON) and columns of numbers.

// The rows that many series have in common: (rank, step) of each, rank by rank.
struct RowGrid {
  std::vector<size_t> order;  // place in the grid -> row of the series
  std::vector<int64_t> steps;
  std::vector<int32_t> ranks;
  uint32_t rank_distance = 0;  // rows of the first rank
};

// Series of one table that stand side by side and are packed together.
struct SeriesChunk {
  size_t first = 0;
  size_t count = 0;
};

// Borrows from the run.
class ReportModel {
 public:
  ReportModel(const MonitoredRun& run, base::ThreadPool& pool);

  const std::vector<std::string>& ops() const { return ops_; }
  const std::vector<SeriesChunk>& chunks() const { return chunks_; }
  // Places in ops() of the statistics that the table of a chunk has, the main one first.
  const std::vector<size_t>& OpsOf(const SeriesChunk& chunk) const;
  // Numbers that are NaN or infinite.
  uint64_t non_finite() const;

  // The columns of one statistic of a chunk, see report.h.
  void AppendChunk(const SeriesChunk& chunk, std::string_view op, std::string& out) const;

  // {"name", "rows", "tables", "ops", "table_ops", "grids", "series", "chunks", "scores",
  // "non_finite", "alerts", ...}; docs/commands/monitor_report.md tells what they hold.
  void WriteListing(json::Writer& writer) const;

 private:
  void FindGrids();
  void FindOps();
  void FindChunks();
  bool IsNeverANumber(size_t series) const;
  std::vector<double> InGridOrder(size_t series, std::string_view op) const;
  void WriteSeries(json::Writer& writer) const;
  void WriteGrid(const RowGrid& grid, json::Writer& writer) const;
  void WriteScores(json::Writer& writer) const;
  void WriteAlerts(json::Writer& writer) const;

  const MonitoredRun& run_;
  std::vector<RowGrid> grids_;
  std::vector<size_t> grid_of_;  // per series
  std::vector<std::string> ops_;
  std::vector<std::string> tables_;
  std::vector<std::vector<size_t>> table_ops_;  // per table, places in ops_
  std::vector<size_t> table_of_;                // per series
  std::vector<SeriesChunk> chunks_;
  double rounding_ = 0;                           // what its numbers are multiples of
  std::vector<std::vector<SeriesScore>> scores_;  // per series, per op
};

// One run, or two laid over each other, as a page for browsers.

// kUnsupported when this program was built without the page.
Result<ReportResult> RunReport(const ReportOptions& options);

inline constexpr std::array<report::GateLevel, 3> kReportLevels = {
    {{"not_finite", "a NaN or an infinity in any table"},
     {"alert", "also an alert of any rank"},
     {"law", "a broken law of any rank", false}}};

report::Document MakeDocument(const ReportResult& outcome, const std::filesystem::path& page);

}  // namespace msprobe::analysis::monitor
