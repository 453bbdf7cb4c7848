#include "src/analysis/monitor/diff/diff.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::monitor {
namespace {

using ::msprobe::test_support::TemporaryFolder;

constexpr const char* kHead = "vpp_stage,name,step,norm,mean\n";

class TwoRuns {
 public:
  void Write(const std::string& run, int rank, const std::string& table, const std::string& rows,
             const std::string& head = kHead) {
    files.Write(
        run + "/Nov21_09-00-00-rank" + std::to_string(rank) + "-aaaaaaaa/" + table + "_0-9.csv",
        head + rows);
  }
  void WritePlace(const std::string& run, int rank, const std::string& json) {
    files.Write(run + "/Nov21_09-00-00-rank" + std::to_string(rank) + "-aaaaaaaa/monitor.json",
                json);
  }
  DiffResult Diff(DiffOptions options = {}) {
    options.a = files / "a";
    options.b = files / "b";
    Result<DiffResult> result = RunDiff(options);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *std::move(result) : DiffResult();
  }
  TemporaryFolder files;
};

TEST(RunDiff, FindsTheFirstStepAndTheModuleThatRanFirst) {
  TwoRuns runs;
  runs.Write("a", 0, "actv", "0,z,0,1,0\n0,b,0,1,0\n0,z,1,1,0\n0,b,1,1,0\n0,z,2,1,0\n0,b,2,1,0\n");
  runs.Write("b", 0, "actv", "0,z,0,1,0\n0,b,0,1,0\n0,z,1,2,0\n0,b,1,9,0\n0,z,2,1,0\n0,b,2,1,5\n");
  runs.Write("a", 0, "grad_reduced", "0,w,1,1,0\n");
  runs.Write("b", 0, "grad_reduced", "0,w,1,99,0\n");
  const DiffResult result = runs.Diff();
  ASSERT_NE(result.first(), nullptr);
  EXPECT_EQ(result.first()->table, "actv");
  EXPECT_EQ(result.first()->op, "norm");
  EXPECT_EQ(result.first()->first->step, 1);
  EXPECT_EQ(result.first()->first->name, "z");
  EXPECT_EQ(result.first()->worst->name, "b");
  EXPECT_EQ(result.first()->divergent, 2U);
  EXPECT_EQ(result.first()->compared, 6U);
  EXPECT_FALSE(result.reduced);
}

TEST(RunDiff, TakesParametersBeforeTheStepBeforeItsActivations) {
  TwoRuns runs;
  for (const char* table : {"actv", "param_origin"}) {
    runs.Write("a", 0, table, "0,w,3,1,0\n");
    runs.Write("b", 0, table, "0,w,3,2,0\n");
  }
  EXPECT_EQ(runs.Diff().first()->table, "param_origin");
}

TEST(RunDiff, AllowsWhatTheThresholdsAllow) {
  TwoRuns runs;
  runs.Write("a", 0, "actv", "0,w,0,100,0.0001\n");
  runs.Write("b", 0, "actv", "0,w,0,104,0.0002\n");
  DiffOptions options;
  options.rtol = 0.05;
  options.atol = 0.001;
  EXPECT_EQ(runs.Diff(options).first(), nullptr);
  options.rtol = 0.03;
  EXPECT_NE(runs.Diff(options).first(), nullptr);
}

constexpr const char* kWholeHead = "vpp_stage,name,step,norm,min,nans,shape,dtype\n";

// What has no gradient has rows without a shape: nothing to be equal or NaN.
TEST(RunDiff, LeavesOutWhereNeitherRunHadATensor) {
  TwoRuns runs;
  const std::string rows =
      "0,.input,0,nan,nan,nan,nan,nan\n0,w,0,1,1,0,[4],torch.float32\n"
      "0,empty,0,0.0,nan,0,\"[0, 4]\",torch.float32\n";
  runs.Write("a", 0, "actv_grad", rows, kWholeHead);
  runs.Write("b", 0, "actv_grad", rows, kWholeHead);
  const DiffResult result = runs.Diff();
  ASSERT_EQ(result.lines.size(), 3U);
  for (const DiffLine& line : result.lines) {
    EXPECT_EQ(line.nan, 0U) << line.op;
    EXPECT_EQ(line.divergent, 0U) << line.op;
  }
  EXPECT_EQ(result.lines[0].compared, 2U);  // norm of w and of empty
  EXPECT_EQ(result.lines[1].compared, 1U);  // no least element of none
}

TEST(RunDiff, TellsATensorFromNone) {
  TwoRuns runs;
  const std::string other = "0,w,0,1,1,0,[4],torch.float32\n";
  runs.Write("a", 0, "actv_grad", other + "0,x,0,nan,nan,nan,nan,nan\n", kWholeHead);
  runs.Write("b", 0, "actv_grad", other + "0,x,0,2,1,0,[4],torch.float32\n", kWholeHead);
  const DiffResult result = runs.Diff();
  ASSERT_NE(result.first(), nullptr);
  EXPECT_EQ(result.first()->first->name, "x");
}

// A real NaN is one in both runs, and collectives have numbers but no shape.
TEST(RunDiff, CountsNanOfTensors) {
  TwoRuns runs;
  const std::string rows =
      "0,w,0,nan,nan,3,[4],torch.float32\n0,all_reduce.post_0,0,nan,nan,1,nan,nan\n";
  runs.Write("a", 0, "other", rows, kWholeHead);
  runs.Write("b", 0, "other", rows, kWholeHead);
  const DiffResult result = runs.Diff();
  ASSERT_EQ(result.lines.size(), 3U);
  EXPECT_EQ(result.lines[0].nan, 2U);
  EXPECT_EQ(result.lines[2].nan, 0U);
}

// `id` is of tensors without dimensions, dynamic_range of what is not zero.
TEST(RunDiff, LeavesOutStatisticsThatATensorHasNot) {
  TwoRuns runs;
  const char* head = "vpp_stage,name,step,id,dynamic_range,shape,dtype\n";
  const std::string rows = "0,w,0,nan,nan,[4],torch.float32\n0,s,0,nan,1,[],torch.float32\n";
  runs.Write("a", 0, "actv", rows, head);
  runs.Write("b", 0, "actv", rows, head);
  const DiffResult result = runs.Diff();
  ASSERT_EQ(result.lines.size(), 2U);
  EXPECT_EQ(result.lines[0].nan, 1U);  // the scalar is NaN
  EXPECT_EQ(result.lines[1].compared, 1U);
}

TEST(RunDiff, CombinesRanksOfWhichSomeHaveNoTensor) {
  TwoRuns runs;
  for (const char* run : {"a", "b"}) {
    runs.Write(run, 0, "actv_grad", "0,x,0,nan,nan,nan,nan,nan\n", kWholeHead);
    runs.Write(run, 1, "actv_grad", "0,x,0,3,1,0,[4],torch.float32\n", kWholeHead);
  }
  DiffOptions options;
  options.reduce = true;
  const DiffResult result = runs.Diff(options);
  ASSERT_FALSE(result.lines.empty());
  EXPECT_EQ(result.lines[0].compared, 1U);
  EXPECT_EQ(result.lines[0].nan, 0U);
}

TEST(RunDiff, TakesNanForEqualToNanOnly) {
  TwoRuns runs;
  runs.Write("a", 0, "actv", "0,w,0,nan,inf\n0,w,1,nan,0\n");
  runs.Write("b", 0, "actv", "0,w,0,nan,inf\n0,w,1,3,0\n");
  const DiffResult result = runs.Diff();
  ASSERT_NE(result.first(), nullptr);
  EXPECT_EQ(result.first()->first->step, 1);
  EXPECT_EQ(result.first()->divergent, 1U);
}

TEST(RunDiff, PutsTheShardsOfAnyNumberOfRanksTogether) {
  TwoRuns runs;
  runs.Write("a", 0, "param_origin", "0,w,0,5,1\n0,bias,0,2,1\n");
  runs.Write("b", 0, "param_origin", "0,w,0,3,0.5\n0,bias,0,2,1\n");
  runs.Write("b", 1, "param_origin", "0,w,0,4,1.5\n0,bias,0,2,1\n");  // the bias is a copy
  const DiffResult result = runs.Diff();
  EXPECT_TRUE(result.reduced);
  EXPECT_EQ(result.first(), nullptr);
  ASSERT_EQ(result.lines.size(), 2U);
  EXPECT_EQ(result.lines[0].compared, 2U);
}

TEST(RunDiff, CountsOneRankOfADataParallelGroup) {
  TwoRuns runs;
  runs.Write("a", 0, "grad_reduced", "0,w,0,5,1\n");
  runs.Write("b", 0, "grad_reduced", "0,w,0,5,1\n");
  runs.Write("b", 1, "grad_reduced", "0,w,0,5.000001,1\n");  // no copy to the digit
  EXPECT_NE(runs.Diff().first(), nullptr);
  runs.WritePlace("b", 0, R"({"rank": 0, "world_size": 2, "data_ranks": [0, 1]})");
  runs.WritePlace("b", 1, R"({"rank": 1, "world_size": 2, "data_ranks": [0, 1]})");
  EXPECT_EQ(runs.Diff().first(), nullptr);
}

TEST(RunDiff, KeepsPipelineStagesApart) {
  TwoRuns runs;
  runs.Write("a", 0, "actv", "0,0.mlp,0,1,1\n");
  runs.Write("b", 0, "actv", "0,0.mlp,0,1,1\n");
  runs.Write("b", 1, "actv", "0,0.mlp,0,7,1\n");
  runs.WritePlace("b", 1, R"({"rank": 1, "world_size": 2, "pipeline_stage": 1})");
  const DiffResult result = runs.Diff();
  EXPECT_EQ(result.first(), nullptr);
  EXPECT_EQ(result.only_b, 1U);
}

TEST(RunDiff, SaysWhatCannotBeMadeOneValue) {
  TwoRuns runs;
  runs.Write("a", 0, "grad_unreduced", "0,w,0,5,1\n");
  runs.Write("a", 0, "actv", "0,w,0,5,1\n");
  runs.Write("b", 0, "actv", "0,w,0,5,1\n");
  runs.Write("b", 0, "grad_unreduced", "0,w,0,5,1\n");
  runs.Write("b", 1, "grad_unreduced", "0,w,0,5,1\n");
  const DiffResult result = runs.Diff();
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_NE(result.notes[0].find("grad_unreduced"), std::string::npos);
}

TEST(RunDiff, ComparesTablesWithStatisticsOfTheirOwn) {
  const std::string attention = "vpp_stage,name,step,micro_step,entropy,softmax_max\n";
  const std::string linear = "vpp_stage,name,step,sr,kernel_norm\n";
  TwoRuns runs;
  runs.Write("a", 0, "actv", "0,w,0,1,1\n0,w,1,1,1\n");
  runs.Write("b", 0, "actv", "0,w,0,1,1\n0,w,1,2,1\n");
  runs.Write("a", 0, "attention_hook", "0,core,0,0,2,0.5\n0,core,1,0,2,0.5\n", attention);
  runs.Write("b", 0, "attention_hook", "0,core,0,0,2,0.5\n0,core,1,0,2.5,0.5\n", attention);
  runs.Write("a", 0, "linear_hook", "0,fc,0,3,4\n0,fc,1,3,4\n", linear);
  runs.Write("b", 0, "linear_hook", "0,fc,0,3,4\n0,fc,1,3,5\n", linear);
  const DiffResult result = runs.Diff();
  ASSERT_NE(result.first(), nullptr);
  EXPECT_EQ(result.first()->table, "attention_hook");
  EXPECT_EQ(result.first()->op, "entropy");
  EXPECT_EQ(result.first()->first->micro_step, 0);
  ASSERT_EQ(result.lines.size(), 6U);  // two of each: no table has those of another
  EXPECT_EQ(result.lines.back().op, "kernel_norm");
  EXPECT_EQ(result.lines.back().divergent, 1U);
}

TEST(RunDiff, AveragesEntropiesOfExpertsOverRanks) {
  const std::string head = "vpp_stage,name,step,micro_step,per_token_expert_entropy\n";
  TwoRuns runs;
  runs.Write("a", 0, "moe_router_logit_hook", "0,router,0,0,2\n", head);
  runs.Write("b", 0, "moe_router_logit_hook", "0,router,0,0,1.5\n", head);
  runs.Write("b", 1, "moe_router_logit_hook", "0,router,0,0,2.5\n", head);
  const DiffResult result = runs.Diff();
  ASSERT_EQ(result.lines.size(), 1U);
  EXPECT_EQ(result.first(), nullptr);
}

TEST(RunDiff, RefusesToSayAnythingOfRunsThatItCannotCompare) {
  const std::string head = "vpp_stage,name,step,sr,kernel_norm\n";
  TwoRuns runs;
  runs.Write("a", 0, "linear_hook", "0,fc,0,3,4\n", head);
  runs.Write("b", 0, "linear_hook", "0,fc,0,3,4\n", head);
  DiffOptions options;
  options.a = runs.files / "a";
  options.b = runs.files / "b";
  EXPECT_TRUE(RunDiff(options).ok());
  options.reduce = true;
  const Status status = RunDiff(options).status();
  EXPECT_EQ(status.code(), StatusCode::kMismatch);
  EXPECT_NE(status.hint().find("kernel_norm"), std::string::npos) << status.hint();
}

TEST(RunDiff, RefusesRunsWithNothingInCommon) {
  TwoRuns runs;
  runs.Write("a", 0, "actv", "0,w,0,5,1\n");
  runs.Write("b", 0, "actv", "0,w,1,5,1\n");
  DiffOptions options;
  options.a = runs.files / "a";
  options.b = runs.files / "b";
  EXPECT_EQ(RunDiff(options).status().code(), StatusCode::kMismatch);
}

}  // namespace
}  // namespace msprobe::analysis::monitor
