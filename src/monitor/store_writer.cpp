// Batches as rows of a trend store, one transaction per step. Micro steps stay with the names:
// which number a step's last one has is not known while it runs.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "src/monitor/trend_store.h"
#include "src/monitor/writer.h"

namespace msprobe::monitor {
namespace {

class StoreWriter final : public Writer {
 public:
  StoreWriter(std::unique_ptr<TrendStore> store, int32_t rank)
      : store_(std::move(store)), rank_(rank) {}

  Status Write(const Batch& batch) override;
  Status EndStep(int64_t /*step*/) override {
    if (!is_open_) {
      return {};
    }
    is_open_ = false;
    return store_->Commit();
  }
  Status Close() override {
    is_open_ = false;
    return store_->Close();
  }

 private:
  std::unique_ptr<TrendStore> store_;
  const int64_t rank_;
  bool is_open_ = false;  // a transaction
};

Status StoreWriter::Write(const Batch& batch) {
  if (!TrendStore::IsMetric(batch.table)) {
    return {};
  }
  if (!is_open_) {
    MSP_RETURN_IF_ERROR(store_->Begin());
    is_open_ = true;
  }
  std::vector<std::string> statistics;
  std::vector<size_t> columns;
  for (size_t i = 0; i < batch.columns.size(); ++i) {
    if (TrendStore::IsStatistic(StatisticName(batch.columns[i]))) {
      statistics.emplace_back(StatisticName(batch.columns[i]));
      columns.push_back(i);
    }
  }
  MSP_ASSIGN_OR_RETURN(const int64_t metric, store_->Metric(batch.table, statistics));
  std::vector<double> values(columns.size());
  for (const Row& row : batch.rows) {
    MSP_ASSIGN_OR_RETURN(const int64_t target,
                         store_->Target(row.name, row.stage, row.micro_step.value_or(0), metric));
    for (size_t i = 0; i < columns.size(); ++i) {
      values[i] = columns[i] < row.values.size()
                      ? NumberOf(row.values[columns[i]]).value_or(std::nan(""))
                      : std::nan("");
    }
    MSP_RETURN_IF_ERROR(store_->Insert(rank_, batch.step, target, metric, values));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Writer>> MakeStoreWriter(const std::filesystem::path& folder, int32_t rank) {
  MSP_ASSIGN_OR_RETURN(const SqliteApi* api, FindSqlite());
  MSP_ASSIGN_OR_RETURN(
      std::unique_ptr<TrendStore> store,
      TrendStore::Open(*api, folder / "monitor_data.trend.db", TrendStore::Use::kLive));
  return std::unique_ptr<Writer>(std::make_unique<StoreWriter>(std::move(store), rank));
}

}  // namespace msprobe::monitor
