#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/monitor/report/report.h"

namespace msprobe::analysis::monitor {
namespace {

using ::testing::HasSubstr;

TEST(ReportModel, KnowsTheStatisticsOfEachTable) {
  const auto run = ReadMonitoredRun(MSPROBE_TEST_DATA "/monitor/hooks");
  ASSERT_TRUE(run.ok()) << run.status().message();
  base::ThreadPool pool(1);
  const ReportModel model(*run, pool);
  // The ones people look at first in front, the others by name.
  EXPECT_EQ(model.ops(), (std::vector<std::string>{"norm", "entropy", "sr", "kernel_norm",
                                                   "per_token_expert_entropy",
                                                   "router_weight_similarity", "softmax_max"}));
  std::string text;
  json::Writer writer(text, -1, json::Writer::NonFinite::kText);
  model.WriteListing(writer);
  EXPECT_THAT(text, HasSubstr(R"("tables": ["actv", "attention_hook", "linear_hook", )"
                              R"("moe_router_logit_hook", "moe_router_weight_hook"])"));
  EXPECT_THAT(text, HasSubstr(R"("table_ops": [[0], [1, 6], [2, 3], [4], [5]])"));
  ASSERT_EQ(model.chunks().size(), 5U);  // one per table
  EXPECT_EQ(model.OpsOf(model.chunks()[2]), (std::vector<size_t>{2, 3}));
}

}  // namespace
}  // namespace msprobe::analysis::monitor
