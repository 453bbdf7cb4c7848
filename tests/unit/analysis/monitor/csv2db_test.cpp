#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "src/analysis/monitor/store/store.h"
#include "tests/unit/analysis/monitor/store_query.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::monitor {
namespace {

using ::msprobe::test_support::TemporaryFolder;

TEST(RunCsv2Db, GivesTablesWithStatisticsOfTheirOwnColumnsOfTheirOwn) {
  const TemporaryFolder files;
  StoreOptions options;
  options.data = MSPROBE_TEST_DATA "/monitor/hooks";
  options.output = files / "store";
  const Result<StoreResult> result = RunCsv2Db(options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->rows, 24U);
  EXPECT_EQ(result->warnings.size(), 0U);
  EXPECT_EQ(Query(result->file,
                  "SELECT actv, attention_hook, linear_hook, moe_router_weight_hook, "
                  "moe_router_logit_hook FROM global_stats"),
            "norm|entropy,softmax_max|sr,kernel_norm|router_weight_similarity|"
            "per_token_expert_entropy");
  // Two micro steps: step 2 begins at 4, and what has no micro step stands on the first.
  EXPECT_EQ(Query(result->file,
                  "SELECT step, metric_name, norm, entropy, softmax_max, sr, kernel_norm, "
                  "router_weight_similarity, per_token_expert_entropy FROM trend_data JOIN "
                  "monitoring_metrics USING (metric_id) WHERE step >= 4 ORDER BY metric_id, step"),
            "4|actv|1.2|-|-|-|-|-|-;5|actv|1.25|-|-|-|-|-|-;"
            "4|attention_hook|-|1.9|0.62|-|-|-|-;5|attention_hook|-|1.95|0.61|-|-|-|-;"
            "4|linear_hook|-|-|-|5.5|0.92|-|-;4|moe_router_weight_hook|-|-|-|-|-|0.03|-;"
            "4|moe_router_logit_hook|-|-|-|-|-|-|1.3;5|moe_router_logit_hook|-|-|-|-|-|-|1.35");
}

TEST(RunCsv2Db, FailsWhereNoTableCanBeReadAndCountsThoseThatCannot) {
  const TemporaryFolder files;
  const std::string folder = "run/Nov21_09-58-35-rank0-1a197c9e/";
  files.Write(folder + "actv_0-0.csv", std::string(size_t{2} << 20U, 'x'));
  StoreOptions options;
  options.data = files / "run";
  options.output = files / "store";
  const Result<StoreResult> none = RunCsv2Db(options);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kIo);
  EXPECT_NE(none.status().message().find("actv_0-0.csv"), std::string::npos);
  EXPECT_NE(none.status().hint().find("1 table"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(options.output / "monitor_data.trend.db"));

  files.Write(folder + "grad_reduced_0-0.csv", "vpp_stage,name,step,norm\n0,w,0,1.5\n");
  const Result<StoreResult> some = RunCsv2Db(options);
  ASSERT_TRUE(some.ok()) << some.status().message();
  EXPECT_EQ(some->rows, 1U);
  EXPECT_EQ(some->unread_files, 1U);
}

}  // namespace
}  // namespace msprobe::analysis::monitor
