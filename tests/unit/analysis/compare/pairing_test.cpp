#include "src/analysis/compare/pairing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

using test_support::DumpText;
using test_support::TemporaryFolder;

void AddRank(const TemporaryFolder& folder, const std::string& place) {
  folder.Write(place + "/dump.json", DumpText(""));
}

PairingPlan Plan(const TemporaryFolder& folder, const std::string& npu, const std::string& bench) {
  Result<PairingPlan> plan = PlanPairs(folder.path() / npu, folder.path() / bench);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? *std::move(plan) : PairingPlan();
}

TEST(PlanPairs, PairsTwoFilesWithoutASuffix) {
  const TemporaryFolder folder;
  AddRank(folder, "npu/step0/rank0");
  AddRank(folder, "gpu/step5/rank3");
  const PairingPlan plan = Plan(folder, "npu/step0/rank0/dump.json", "gpu/step5/rank3/dump.json");
  ASSERT_EQ(plan.pairs.size(), 1u);
  EXPECT_EQ(plan.pairs[0].rank_suffix, "");
  EXPECT_EQ(plan.pairs[0].input.rank, 0);
}

TEST(PlanPairs, PairsRanksOfAStepByNumberNotByText) {
  const TemporaryFolder folder;
  for (const char* rank : {"rank0", "rank2", "rank10"}) {
    AddRank(folder, std::string("npu/") + rank);
    AddRank(folder, std::string("gpu/") + rank);
  }
  AddRank(folder, "gpu/rank1");
  const PairingPlan plan = Plan(folder, "npu", "gpu");
  ASSERT_EQ(plan.pairs.size(), 3u);
  EXPECT_EQ(plan.pairs[1].rank_suffix, "_rank2");
  EXPECT_EQ(plan.pairs[2].rank_suffix, "_rank10");
  EXPECT_THAT(plan.bench_only, ::testing::ElementsAre("rank1"));
}

TEST(PlanPairs, PutsSeveralStepsIntoFoldersOfTheirOwn) {
  const TemporaryFolder folder;
  for (const char* place : {"step0/rank0", "step2/rank0"}) {
    AddRank(folder, std::string("npu/") + place);
    AddRank(folder, std::string("gpu/") + place);
  }
  const PairingPlan plan = Plan(folder, "npu", "gpu");
  ASSERT_EQ(plan.pairs.size(), 2u);
  EXPECT_EQ(plan.pairs[0].result_subfolder, "step0");
  EXPECT_EQ(plan.pairs[1].result_subfolder, "step2");
}

TEST(PlanPairs, IgnoresStepNumbersWhenEachSideHasOneStep) {
  const TemporaryFolder folder;
  AddRank(folder, "npu/step0/rank0");
  AddRank(folder, "gpu/step7/rank0");
  EXPECT_EQ(Plan(folder, "npu", "gpu").pairs.size(), 1u);
}

TEST(PlanPairs, RefusesAFileAgainstAFolder) {
  const TemporaryFolder folder;
  AddRank(folder, "npu/step0/rank0");
  AddRank(folder, "gpu/step0/rank0");
  const Result<PairingPlan> plan =
      PlanPairs(folder.path() / "npu/step0/rank0/dump.json", folder.path() / "gpu");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kUsage);
}

TEST(PlanPairs, SaysSoWhenNothingPairs) {
  const TemporaryFolder folder;
  for (const char* rank : {"rank0", "rank1"}) {
    AddRank(folder, std::string("npu/step0/") + rank);
  }
  for (const char* rank : {"rank2", "rank3"}) {
    AddRank(folder, std::string("gpu/step0/") + rank);
  }
  const Result<PairingPlan> plan = PlanPairs(folder.path() / "npu", folder.path() / "gpu");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kNotFound);
}

TEST(PlanPairs, PairsOtherRankNumbersByPositionFor26Only) {
  const TemporaryFolder folder;
  for (const char* rank : {"0", "1"}) {
    AddRank(folder, std::string("npu/rank") + rank);
  }
  for (const char* rank : {"2", "3"}) {
    AddRank(folder, std::string("gpu/rank") + rank);
  }
  const Result<PairingPlan> plan =
      PlanPairs(folder.path() / "npu", folder.path() / "gpu", Edition::kV26);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->pairs.size(), 2u);
  EXPECT_EQ(plan->pairs[1].rank_suffix, "_rank1");
  EXPECT_EQ(plan->pairs[1].input.bench_json.parent_path().filename(), "rank3");
  EXPECT_FALSE(PlanPairs(folder.path() / "npu", folder.path() / "gpu").ok());
}

TEST(PlanPairs, PairsTheOnlyProcessOfEachSide) {
  const TemporaryFolder folder;
  AddRank(folder, "npu/step0/proc12");
  AddRank(folder, "gpu/step0/proc34");
  const PairingPlan plan = Plan(folder, "npu/step0", "gpu/step0");
  ASSERT_EQ(plan.pairs.size(), 1u);
  EXPECT_EQ(plan.pairs[0].rank_suffix, "_proc12");
  AddRank(folder, "gpu/step0/proc35");
  const Result<PairingPlan> several =
      PlanPairs(folder.path() / "npu/step0", folder.path() / "gpu/step0");
  EXPECT_EQ(several.status().code(), StatusCode::kUsage);
}

}  // namespace
}  // namespace msprobe::analysis::compare
