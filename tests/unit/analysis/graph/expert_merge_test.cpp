// Ranks that share the layers of a model but not its experts.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/analysis/graph/merge.h"
#include "src/analysis/graph/model.h"
#include "tests/unit/analysis/graph/small_dump.h"

namespace msprobe::analysis::graph {
namespace {

using test_support::TemporaryFolder;

constexpr std::string_view kMixture = "Module.layers.0.mlp.MoELayer.forward.0";
constexpr std::string_view kExpert = "Module.layers.0.mlp.experts.local_experts.0.MLP.forward.0";
constexpr std::string_view kShared = "Module.layers.0.mlp.shared_experts.SharedExpertMLP.forward.0";

std::string CallOf(double most) {
  const std::string tensor = fmt::format(
      R"({{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4, 8], "Max": {0:.1f}, "Min": 0.5, "Mean": {0:.1f}, "Norm": {0:.1f}}})",
      most);
  return fmt::format(R"({{"input_args": [{}], "input_kwargs": {{}}, "output": [{}]}})", tensor,
                     tensor);
}

// `exchange`: whose tokens the experts of a rank get.
std::vector<std::filesystem::path> WriteRanks(const TemporaryFolder& scratch,
                                              std::string_view exchange, std::string_view call) {
  std::vector<std::filesystem::path> folders;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string name = fmt::format("rank{}", rank);
    const std::string construct = fmt::format(
        R"("{0}": null, "{1}": "{0}", "{2}": "{0}", "Distributed.{3}.0.forward": "{0}")", kMixture,
        kExpert, kShared, call);
    const std::string data = fmt::format(
        R"("{}": {}, "{}": {}, "{}": {}, "Distributed.{}.0.forward": {{"input_args": [], "input_kwargs": {{"group": {{"type": "torch.ProcessGroup", "group_ranks": {}, "group_id": "g"}}}}, "output": []}})",
        kExpert, CallOf(1 + rank), kShared, CallOf(1 + rank), kMixture, CallOf(1 + rank), call,
        exchange);
    LoadDump(scratch, name, construct, data);
    folders.push_back(scratch / name);
  }
  return folders;
}

struct Merge {
  MergedRanks ranks;
  std::vector<std::string> warnings;

  // The largest value of the first output, and what is said of the merge.
  std::string Of(std::string_view node, size_t model = 0) const {
    const Result<RankDump> dump = RankDump::Load(ranks.folders[model]);
    EXPECT_TRUE(dump.ok()) << dump.status().message();
    const uint32_t entry = dump->FindEntry(node);
    const Result<dump::EntryTree> tree = dump->ReadEntry(entry);
    const uint32_t info = tree->Find(0, "parallel_merge_info");
    const compare::SideEntry& rows = dump->side().entries[entry];
    return fmt::format(
        "{} {}", dump->side().rows[rows.first_row + rows.row_count - 1].stats[compare::kMax].number,
        info == dump::EntryTree::kNone ? "" : (*tree)[info + 1].text);
  }
};

Merge MergeOf(const TemporaryFolder& scratch, std::string_view exchange, uint64_t tensor,
              std::string_view call = "all_to_all_single") {
  Parallelism sizes;
  sizes.rank_count = 2;
  sizes.tensor = tensor;
  Merge merge;
  Result<MergedRanks> ranks = MergeRanks(WriteRanks(scratch, exchange, call), sizes,
                                         MergedFor::kGraph, scratch / "merged", merge.warnings);
  EXPECT_TRUE(ranks.ok()) << ranks.status().message();
  merge.ranks = *std::move(ranks);
  return merge;
}

TEST(ExpertMerge, ExpertsOfOneNameThatAreOtherOnesAreNotJoined) {
  const TemporaryFolder scratch;
  const Merge merge = MergeOf(scratch, "[0, 1]", 2);
  ASSERT_EQ(merge.ranks.folders.size(), 1U);
  EXPECT_EQ(merge.ranks.expert_ranks, 2U);
  EXPECT_EQ(merge.Of(kExpert),
            "1 This data is that of rank 0 alone: other ranks have other experts of this name.");
  EXPECT_EQ(merge.Of(kShared).substr(0, 21), "2 This data is the me");
  EXPECT_EQ(merge.Of(kMixture).substr(0, 21), "2 This data is the me");
  ASSERT_EQ(merge.warnings.size(), 2U);
  EXPECT_NE(merge.warnings[0].find("ranks [0, 1] exchange tokens inside of MoE modules"),
            std::string::npos)
      << merge.warnings[0];
  EXPECT_NE(merge.warnings[1].find("1 node of experts"), std::string::npos) << merge.warnings[1];
}

TEST(ExpertMerge, ModelsThatShareExpertsAreToldToDoSo) {
  const TemporaryFolder scratch;
  const Merge merge = MergeOf(scratch, "[0, 1]", 1);
  ASSERT_EQ(merge.ranks.folders.size(), 2U);
  EXPECT_EQ(merge.Of(kExpert, 1), "2 ");
  ASSERT_EQ(merge.warnings.size(), 1U);
  EXPECT_NE(merge.warnings[0].find("expert parallelism"), std::string::npos) << merge.warnings[0];
}

TEST(ExpertMerge, ExpertsThatAllRanksShareAreJoinedAsOtherLayers) {
  const TemporaryFolder scratch;
  const Merge merge = MergeOf(scratch, "[0]", 2);
  EXPECT_EQ(merge.ranks.expert_ranks, 1U);
  EXPECT_EQ(merge.Of(kExpert).substr(0, 21), "2 This data is the me");
  EXPECT_TRUE(merge.warnings.empty());
}

// The other way of Megatron: all tokens go to all ranks.
TEST(ExpertMerge, ExpertsThatGetTokensOfOtherModelsByGatheringAreOtherOnes) {
  const TemporaryFolder scratch;
  const Merge merge = MergeOf(scratch, "[0, 1]", 1, "all_gather_into_tensor");
  EXPECT_EQ(merge.ranks.expert_ranks, 2U);
  ASSERT_EQ(merge.warnings.size(), 1U);
  EXPECT_NE(merge.warnings[0].find("expert parallelism"), std::string::npos) << merge.warnings[0];
}

TEST(ExpertMerge, WhereGatheringDoesNotTellWhoseExpertsTheseAreTheMissingNumberIsNamed) {
  const TemporaryFolder scratch;
  const Merge merge = MergeOf(scratch, "[0, 1]", 2, "_all_gather_base");
  EXPECT_EQ(merge.ranks.expert_ranks, 1U);
  EXPECT_EQ(merge.Of(kExpert).substr(0, 21), "2 This data is the me");
  ASSERT_EQ(merge.warnings.size(), 1U);
  EXPECT_NE(merge.warnings[0].find("the number of experts of the model, and the first one of each"),
            std::string::npos)
      << merge.warnings[0];
}

}  // namespace
}  // namespace msprobe::analysis::graph
