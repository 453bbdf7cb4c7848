#include "src/analysis/graph/rank_groups.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/analysis/graph/match.h"
#include "tests/unit/analysis/graph/small_dump.h"

namespace msprobe::analysis::graph {
namespace {

using test_support::TemporaryFolder;
using Groups = std::vector<std::vector<int64_t>>;

std::string InGroup(std::string_view name, std::string_view ranks) {
  return fmt::format(
      R"("{}": {{"input_args": [], "input_kwargs": {{"group": {{"type": "torch.ProcessGroup", "group_ranks": {}, "group_id": "g"}}}}, "output": []}})",
      name, ranks);
}

std::string SendTo(int64_t rank) {
  return fmt::format(
      R"("Distributed.send.0.forward": {{"input_args": [], "input_kwargs": {{"dst": {{"type": "int", "value": {}}}}}, "output": []}})",
      rank);
}

constexpr std::string_view kBetween = R"("Distributed.send.0.forward": null)";
constexpr std::string_view kInAttention =
    R"("Distributed.all_gather.0.forward": "Module.self_attention.SelfAttention.forward.0", "Module.self_attention.SelfAttention.forward.0": null)";

RankDump Loaded(const TemporaryFolder& scratch, int64_t rank, std::string_view construct,
                std::string_view data) {
  RankDump dump = LoadDump(scratch, fmt::format("rank{}", rank), construct, data);
  SetPlaces(dump.side(), Edition::kV26);
  return dump;
}

// `groups`: of each rank, the ranks that it exchanges values with inside of attention.
std::vector<RankDump> GatheringInAttention(const TemporaryFolder& scratch,
                                           std::initializer_list<std::string_view> groups) {
  std::vector<RankDump> dumps;
  for (const std::string_view ranks : groups) {
    dumps.push_back(Loaded(scratch, static_cast<int64_t>(dumps.size()), kInAttention,
                           InGroup("Distributed.all_gather.0.forward", ranks)));
  }
  return dumps;
}

TEST(FindRankGroups, WithoutCallsTheOrderSays) {
  const TemporaryFolder scratch;
  std::vector<RankDump> dumps;
  for (int64_t rank = 0; rank < 8; ++rank) {
    dumps.push_back(Loaded(scratch, rank, R"("Module.a.A.forward.0": null)", ""));
  }
  Parallelism sizes;
  sizes.rank_count = 8;
  sizes.tensor = 2;
  sizes.pipeline = 2;
  sizes.context = 2;
  std::vector<std::string> warnings;
  const RankGroups groups = FindRankGroups(dumps, sizes, warnings);
  EXPECT_EQ(groups.tensor, (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups.context, (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups.pipeline, (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_TRUE(warnings.empty());
}

TEST(FindRankGroups, SendsThatDoNotFollowTheOrderWin) {
  const TemporaryFolder scratch;
  std::vector<RankDump> dumps;
  for (const int64_t peer : {1, 0, 3, 2}) {
    dumps.push_back(Loaded(scratch, static_cast<int64_t>(dumps.size()), kBetween, SendTo(peer)));
  }
  Parallelism sizes;
  sizes.rank_count = 4;
  sizes.pipeline = 2;
  std::vector<std::string> warnings;
  EXPECT_EQ(FindRankGroups(dumps, sizes, warnings).pipeline, (Groups{{0, 1}, {2, 3}}));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("ranks [0, 1], not [0, 2]"), std::string::npos) << warnings[0];
}

// A root hands its data to all ranks of a group: it is no neighbour in a pipeline.
TEST(FindRankGroups, OnlyMessagesJoinStages) {
  for (const char* arguments :
       {R"("input_args": [], "input_kwargs": {"dst": {"type": "int", "value": RANK}})",
        R"("input_args": [null, {"type": "int", "value": RANK}], "input_kwargs": {})"}) {
    const TemporaryFolder scratch;
    std::vector<RankDump> dumps;
    for (const char peer : {'1', '0', '3', '2'}) {
      std::string call = arguments;
      call.replace(call.find("RANK"), 4, 1, peer);
      dumps.push_back(Loaded(
          scratch, static_cast<int64_t>(dumps.size()),
          R"("Distributed.send.0.forward": null, "Distributed.broadcast.0.forward": null)",
          "\"Distributed.send.0.forward\": {" + call + R"(, "output": []}, )" +
              R"("Distributed.broadcast.0.forward": {"input_args": [], "input_kwargs": {"src": {"type": "int", "value": 0}}, "output": []})"));
    }
    Parallelism sizes;
    sizes.rank_count = 4;
    sizes.pipeline = 2;
    std::vector<std::string> warnings;
    EXPECT_EQ(FindRankGroups(dumps, sizes, warnings).pipeline, (Groups{{0, 1}, {2, 3}}));
  }
}

TEST(FindRankGroups, WhoMeetsInAttentionSharesASequenceUnlessToldOtherwise) {
  const TemporaryFolder scratch;
  const std::vector<RankDump> dumps =
      GatheringInAttention(scratch, {"[0, 1]", "[0, 1]", "[2, 3]", "[2, 3]"});
  Parallelism sizes;
  sizes.rank_count = 4;
  std::vector<std::string> warnings;
  EXPECT_EQ(FindRankGroups(dumps, sizes, warnings).context, (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(warnings.size(), 1U);
  warnings.clear();
  sizes.context = 1;
  EXPECT_EQ(FindRankGroups(dumps, sizes, warnings).context, (Groups{{0}, {1}, {2}, {3}}));
  EXPECT_TRUE(warnings.empty());
}

// Every sequence crosses both tensor groups, but not at the same place: no grid, so the order says.
TEST(FindRankGroups, GroupsThatMakeNoGridAreIgnored) {
  const TemporaryFolder scratch;
  const std::vector<RankDump> dumps =
      GatheringInAttention(scratch, {"[0, 3]", "[1, 2]", "[1, 2]", "[0, 3]"});
  Parallelism sizes;
  sizes.rank_count = 4;
  sizes.tensor = 2;
  std::vector<std::string> warnings;
  const RankGroups groups = FindRankGroups(dumps, sizes, warnings);
  EXPECT_EQ(groups.tensor, (Groups{{0, 1}, {2, 3}}));
  EXPECT_NE(groups.context, (Groups{{0, 3}, {1, 2}}));
}

TEST(FindRankGroups, GroupsOfHostileRanksAreIgnored) {
  const TemporaryFolder scratch;
  const std::vector<RankDump> dumps =
      GatheringInAttention(scratch, {"[0, 99999999999]", "[-1, 0]"});
  Parallelism sizes;
  sizes.rank_count = 2;
  sizes.tensor = 2;
  std::vector<std::string> warnings;
  const RankGroups groups = FindRankGroups(dumps, sizes, warnings);
  EXPECT_EQ(groups.tensor, (Groups{{0, 1}}));
  EXPECT_EQ(groups.context, (Groups{{0}, {1}}));
}

}  // namespace
}  // namespace msprobe::analysis::graph
