#include "src/monitor/trend_store.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/monitor/store/store.h"
#include "src/monitor/writer.h"
#include "tests/unit/analysis/monitor/store_query.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::monitor {
namespace {

using ::msprobe::analysis::monitor::Query;
using ::msprobe::test_support::TemporaryFolder;

TEST(TrendStore, KeepsNumbersWithinTheBoundsOfItsReaders) {
  const TemporaryFolder files;
  auto store =
      TrendStore::Open(analysis::monitor::LinkedSqlite(), files / "a.db", TrendStore::Use::kWhole);
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_TRUE((*store)->Begin().ok());
  const std::vector<std::string> statistics = {"norm", "max"};
  const int64_t metric = *(*store)->Metric("actv", statistics);
  const int64_t target = *(*store)->Target("layers.1.mlp.input", 0, 0, metric);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [step, norm, max] : std::vector<std::tuple<int64_t, double, double>>{
           {0, 1.5, std::nan("")}, {1, infinity, -infinity}, {2, 3e38, -3e38}, {0, 2.5, 4}}) {
    EXPECT_TRUE((*store)->Insert(3, step, target, metric, std::vector<double>{norm, max}).ok());
  }
  ASSERT_TRUE((*store)->Commit().ok());
  ASSERT_TRUE((*store)->Close().ok());
  EXPECT_EQ(Query(files / "a.db", "SELECT rank, step, norm, max FROM trend_data"),
            "3|0|2.5|4.0;3|1|1000000001.0|-1000000001.0;3|2|1000000000.0|-1000000000.0");
  EXPECT_EQ(Query(files / "a.db", "SELECT * FROM global_stats"), "0|2|3|norm,max");
  EXPECT_EQ(Query(files / "a.db", "SELECT tag_name, category FROM monitoring_tags"),
            "layers|module;layers.1|layer;mlp|module;input|module");
}

TEST(TrendStore, RefusesNamesThatAreNoColumns) {
  const TemporaryFolder files;
  auto store =
      TrendStore::Open(analysis::monitor::LinkedSqlite(), files / "a.db", TrendStore::Use::kWhole);
  ASSERT_TRUE(store.ok());
  const std::vector<std::string> hostile = {"norm REAL); DROP TABLE trend_data; --"};
  EXPECT_EQ((*store)->Metric("actv", hostile).status().code(), StatusCode::kUsage);
  EXPECT_EQ((*store)->Metric("actv'; --", {}).status().code(), StatusCode::kUsage);
}

TEST(TrendStore, SaysThatAFileIsNone) {
  const TemporaryFolder files;
  const auto path = files.Write("a.db", std::string(5000, 'x'));
  const auto store =
      TrendStore::Open(analysis::monitor::LinkedSqlite(), path, TrendStore::Use::kLive);
  EXPECT_EQ(store.status().code(), StatusCode::kIo);
  EXPECT_NE(store.status().message().find("a.db"), std::string::npos);
}

Batch StepOf(int64_t step, std::vector<Statistic> columns, double value) {
  Batch batch;
  batch.table = "grad_unreduced";
  batch.step = step;
  batch.columns = std::move(columns);
  Row row;
  row.stage = 1;
  row.name = "0.weight";
  row.micro_step = 2;
  row.values.assign(batch.columns.size(), value);
  batch.rows = {row};
  return batch;
}

TEST(StoreWriter, MakesEachStepReadableAndGoesOnInAFileThatIsThere) {
  UseSqlite(&analysis::monitor::LinkedSqlite());
  const TemporaryFolder files;
  const std::filesystem::path path = files / "monitor_data.trend.db";
  {
    auto writer = MakeStoreWriter(files.path(), 5);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    ASSERT_TRUE((*writer)->Write(StepOf(1, {Statistic::kNorm, Statistic::kShape}, 1)).ok());
    ASSERT_TRUE((*writer)->EndStep(1).ok());
    EXPECT_EQ(Query(path, "SELECT rank, step, norm FROM trend_data"), "5|1|1.0");
    ASSERT_TRUE((*writer)->Write(StepOf(2, {Statistic::kNorm}, 2)).ok());  // closed without EndStep
  }
  auto writer = MakeStoreWriter(files.path(), 5);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Write(StepOf(3, {Statistic::kNorm, Statistic::kMax}, 3)).ok());
  ASSERT_TRUE((*writer)->EndStep(3).ok());
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_EQ(Query(path, "SELECT step, norm, max FROM trend_data"), "1|1.0|-;2|2.0|-;3|3.0|3.0");
  EXPECT_EQ(Query(path, "SELECT * FROM monitoring_targets"), "1|0.weight|1|2");
  EXPECT_EQ(Query(path, "SELECT * FROM global_stats"), "1|3|5|norm,max");
  UseSqlite(nullptr);
}

TEST(StoreWriter, TakesTheSharedLibraryOfTheMachineOrSaysWhatToInstall) {
  const TemporaryFolder files;
  auto writer = MakeStoreWriter(files.path(), 0);
  if (!writer.ok()) {
    EXPECT_NE(writer.status().message().find("libsqlite3.so.0"), std::string::npos);
    EXPECT_NE(writer.status().hint().find("install"), std::string::npos);
    return;
  }
  ASSERT_TRUE((*writer)->Write(StepOf(1, {Statistic::kNorm}, 1)).ok());
  ASSERT_TRUE((*writer)->EndStep(1).ok());
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_EQ(Query(files / "monitor_data.trend.db", "SELECT norm FROM trend_data"), "1.0");
}

}  // namespace
}  // namespace msprobe::monitor
