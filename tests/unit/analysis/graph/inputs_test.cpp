#include "src/analysis/graph/inputs.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::graph {
namespace {

using test_support::TemporaryFolder;

TEST(FindInputs, StepsAndRanksOfBothSidesPairByNumberAndTheRestIsNamed) {
  const TemporaryFolder scratch;
  for (const char* path :
       {"n/step0/rank2/dump.json", "n/step0/rank10/dump.json", "n/step3/rank0/dump.json",
        "b/step0/rank10/dump.json", "b/step0/rank2/dump.json", "b/step0/rank4/dump.json"}) {
    scratch.Write(path, "{}");
  }
  const Result<InputPlan> plan = FindInputs(scratch / "n", scratch / "b");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->ranks.size(), 2U);
  EXPECT_EQ(plan->ranks[0].rank, 2);
  EXPECT_EQ(plan->ranks[1].rank, 10);
  EXPECT_EQ(plan->ranks[1].bench, scratch / "b/step0/rank10");
  EXPECT_EQ(plan->warnings.size(), 2U);
  EXPECT_TRUE(plan->has_steps);
}

TEST(FindInputs, ASoleFolderOfAProcessIsRankZero) {
  const TemporaryFolder scratch;
  scratch.Write("step/proc77/dump.json", "{}");
  const Result<InputPlan> plan = FindInputs(scratch / "step", {});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->ranks.size(), 1U);
  EXPECT_EQ(plan->ranks[0].rank, 0);
  EXPECT_EQ(plan->ranks[0].npu, scratch / "step/proc77");
}

TEST(FindInputs, FoldersOfOtherKindsAreErrorsThatNameThem) {
  const TemporaryFolder scratch;
  scratch.Write("n/rank0/dump.json", "{}");
  scratch.Write("n/ranking/x", "");
  scratch.Write("m/rank0/dump.json", "{}");
  scratch.Write("b/dump.json", "{}");
  std::filesystem::create_directories(scratch / "empty");
  EXPECT_NE(FindInputs(scratch / "n", {}).status().message().find("rank<N>"), std::string::npos);
  EXPECT_EQ(FindInputs(scratch / "m", scratch / "b").status().code(), StatusCode::kMismatch);
  EXPECT_NE(FindInputs(scratch / "empty", {}).status().message().find("is empty"),
            std::string::npos);
  EXPECT_EQ(FindInputs(scratch / "absent", {}).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace msprobe::analysis::graph
