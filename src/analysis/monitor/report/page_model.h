// A run as the report's page takes it: what is listed (as JSON) and columns of numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/monitor/common/monitored_run.h"
#include "src/analysis/monitor/common/series_score.h"
#include "src/base/thread_pool.h"
#include "src/json/writer.h"

namespace msprobe::analysis::monitor {

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

  // The columns of one statistic of a chunk, see column_code.h.
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

}  // namespace msprobe::analysis::monitor
