#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "src/analysis/monitor/common/monitored_run.h"
#include "src/analysis/monitor/csv2tb/options.h"
#include "src/analysis/monitor/store/run.h"
#include "src/analysis/monitor/store/store_file.h"
#include "src/monitor/trend_store.h"

namespace msprobe::analysis::monitor {
namespace {

// One row of trend_data, in the order in which the store keeps them.
struct StoreRow {
  int64_t rank;
  int64_t step;
  int64_t target;
  int64_t metric;
  uint32_t series;
  uint32_t row;
};

// Original steps and the first number of each.
std::map<int64_t, int64_t> NumberSteps(const std::vector<Series>& series) {
  std::map<int64_t, int64_t> places;  // how many numbers a step needs
  for (const Series& table : series) {
    const int64_t needed = std::max(table.micro_step, 0) + int64_t{1};
    for (const int64_t step : table.steps) {
      int64_t& count = places[step];
      count = std::max(count, needed);
    }
  }
  int64_t next = 0;
  for (auto& place : places) {
    next += std::exchange(place.second, next);
  }
  return places;
}

struct Table {
  std::vector<std::string> ops;
  int64_t metric = 0;
};

Status FillStore(const MonitoredRun& run, const StoreOptions& options,
                 msprobe::monitor::TrendStore& store, StoreResult& result) {
  std::map<std::string, Table, std::less<>> tables;
  for (const std::string& name : KnownTables()) {  // metrics get their numbers in this order
    const auto found = run.ops.find(name);
    if (found == run.ops.end()) {
      continue;
    }
    Table& table = tables[name];
    for (const std::string& op : found->second) {
      if (msprobe::monitor::TrendStore::IsStatistic(op)) {
        table.ops.push_back(op);
      }
    }
    MSP_ASSIGN_OR_RETURN(table.metric, store.Metric(name, table.ops));
  }
  const std::map<int64_t, int64_t> numbers =
      options.number_micro_steps ? NumberSteps(run.series) : std::map<int64_t, int64_t>();

  std::vector<StoreRow> rows;
  rows.reserve(run.rows);
  std::set<int64_t> names;
  std::set<int32_t> ranks;
  for (uint32_t i = 0; i < run.series.size(); ++i) {
    const Series& series = run.series[i];
    const int64_t micro_step = std::max(series.micro_step, 0);
    const int64_t metric = tables.find(series.table)->second.metric;
    MSP_ASSIGN_OR_RETURN(const int64_t target,
                         store.Target(Mapped(series.name, options.mapping), series.stage,
                                      options.number_micro_steps ? 0 : micro_step, metric));
    names.insert(target);
    for (uint32_t row = 0; row < series.steps.size(); ++row) {
      const int64_t step = options.number_micro_steps
                               ? numbers.find(series.steps[row])->second + micro_step
                               : series.steps[row];
      rows.push_back({series.ranks[row], step, target, metric, i, row});
      ranks.insert(series.ranks[row]);
    }
  }
  const auto key = [](const StoreRow& row) {
    return std::tie(row.rank, row.step, row.target, row.metric);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&key](const StoreRow& a, const StoreRow& b) { return key(a) < key(b); });
  std::vector<double> values;
  for (const StoreRow& row : rows) {
    const Series& series = run.series[row.series];
    values.clear();
    for (const std::string& op : tables.find(series.table)->second.ops) {
      const auto found = series.values.find(op);
      values.push_back(found == series.values.end() ? std::numeric_limits<double>::quiet_NaN()
                                                    : found->second[row.row]);
    }
    MSP_RETURN_IF_ERROR(store.Insert(row.rank, row.step, row.target, row.metric, values));
  }
  result.rows = rows.size();
  result.names = names.size();
  result.ranks = ranks.size();
  return {};
}

}  // namespace

Result<StoreResult> RunCsv2Db(const StoreOptions& options) {
  ReadOptions read;
  read.tables = KnownTables();
  read.threads = options.threads;
  MSP_RETURN_IF_ERROR(CheckStoreFile(options.output, kMonitorStoreName));
  MSP_ASSIGN_OR_RETURN(MonitoredRun run, ReadMonitoredRun(options.data, read));
  StoreResult result;
  result.warnings = std::move(run.warnings);
  result.unread_files = run.unread_files;
  MSP_ASSIGN_OR_RETURN(result.file,
                       WriteStoreFile(options.output, kMonitorStoreName,
                                      [&](msprobe::monitor::TrendStore& store) -> Status {
                                        return FillStore(run, options, store, result);
                                      }));
  return result;
}

}  // namespace msprobe::analysis::monitor
