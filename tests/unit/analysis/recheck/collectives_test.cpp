// Communication over the dumps of all ranks of a step, made on the spot.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/recheck/made_dump.h"

namespace msprobe::analysis::recheck {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kGroup =
    R"("group": {"type": "torch.ProcessGroup", "group_ranks": [0, 1]})";

// One all_reduce; rank 1 got `wrong` more than the sum.
Answer AllReduced(float wrong, const std::string& keywords, std::vector<float> result) {
  Ranks ranks(2);
  const std::vector<std::vector<float>> inputs = {{1, 2.5F, -3}, {10, 0.25F, 3.5F}};
  for (size_t rank = 0; rank < 2; ++rank) {
    std::vector<float> out = result;
    out[1] += rank == 1 ? wrong : 0;
    ranks.Add(rank, "Distributed.all_reduce.0.forward", ranks.Leaf(rank, "in.npy", inputs[rank]),
              keywords, ranks.Leaf(rank, "out.npy", out));
  }
  return ranks.Check();
}

TEST(Collectives, ASumOverRanksIsRecomputedFromAllOfThem) {
  const Answer answer = AllReduced(0, std::string(kGroup), {11, 2.75F, 0.5F});
  EXPECT_EQ(answer.within, 2U);
  EXPECT_EQ(answer.beyond, 0U);
}

TEST(Collectives, ARankThatGotSomethingElseIsWrong) {
  const Answer answer = AllReduced(0.01F, std::string(kGroup), {11, 2.75F, 0.5F});
  EXPECT_EQ(answer.within, 1U);
  ASSERT_EQ(answer.beyond, 1U);
  EXPECT_EQ(answer.calls[1].verdict(), Verdict::kBeyond);
  EXPECT_EQ(answer.calls[1].rank, 1);
}

TEST(Collectives, OtherReductionsAreKnown) {
  const std::string group = std::string(kGroup) + ", ";
  const auto operation = [&](const char* name) {
    return group + R"("op": {"type": "torch.distributed.ReduceOp", "value": "RedOpType.)" + name +
           "\"}";
  };
  EXPECT_EQ(AllReduced(0, operation("MAX"), {10, 2.5F, 3.5F}).within, 2U);
  EXPECT_EQ(AllReduced(0, operation("MIN"), {1, 0.25F, -3}).within, 2U);
  EXPECT_EQ(AllReduced(0, operation("AVG"), {5.5F, 1.375F, 0.25F}).within, 2U);
  EXPECT_EQ(AllReduced(0, operation("BXOR"), {1, 1, 1}).not_checkable, 2U);
  EXPECT_EQ(AllReduced(1e-6F, operation("MAX"), {10, 2.5F, 3.5F}).beyond, 1U);
}

// Without the group nobody knows whether all of its ranks were captured.
TEST(Collectives, AGroupThatIsNotToldIsNeverCalledWrong) {
  EXPECT_EQ(AllReduced(0, "", {11, 2.75F, 0.5F}).within, 2U);
  EXPECT_EQ(AllReduced(0, "", {21, 7, 0}).not_checkable, 2U);
}

TEST(Collectives, ARankThatIsMissingIsTold) {
  const Answer answer = AllReduced(
      0, R"("group": {"type": "torch.ProcessGroup", "group_ranks": [0, 1, 2]})", {11, 2.75F, 0.5F});
  ASSERT_EQ(answer.not_checkable, 2U);
  EXPECT_THAT(answer.calls[0].checked().reason, HasSubstr("rank 2 is not in the dump"));
}

TEST(Collectives, ARankThatStandsTwiceInItsGroupIsTold) {
  const Answer answer = AllReduced(
      0, R"("group": {"type": "torch.ProcessGroup", "group_ranks": [0, 0]})", {11, 2.75F, 0.5F});
  ASSERT_EQ(answer.not_checkable, 2U);
  EXPECT_THAT(answer.calls[0].checked().reason, HasSubstr("a rank stands twice in its group"));
}

TEST(Collectives, AGroupOfAllRanksIsTheSameAsNone) {
  Ranks ranks(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    ranks.Add(rank, "Distributed.all_reduce.0.forward", ranks.Leaf(rank, "in.npy", {1, 2}),
              rank == 0 ? std::string(kGroup) : std::string(), ranks.Leaf(rank, "out.npy", {2, 4}));
  }
  EXPECT_EQ(ranks.Check().within, 2U);
}

// Calls pair within their group, whatever their numbers are.
TEST(Collectives, CallsOfAGroupPairInTheirOrder) {
  const std::string alone = R"("group": {"type": "torch.ProcessGroup", "group_ranks": [1]})";
  Ranks ranks(2);
  ranks.Add(1, "Distributed.all_reduce.0.forward", ranks.Leaf(1, "a.npy", {7}), alone,
            ranks.Leaf(1, "b.npy", {7}));
  ranks.Add(1, "Distributed.all_reduce.1.forward", ranks.Leaf(1, "c.npy", {2}), std::string(kGroup),
            ranks.Leaf(1, "d.npy", {5}));
  ranks.Add(0, "Distributed.all_reduce.0.forward", ranks.Leaf(0, "e.npy", {3}), std::string(kGroup),
            ranks.Leaf(0, "f.npy", {5}));
  const Answer answer = ranks.Check();
  EXPECT_EQ(answer.within, 3U);
}

TEST(Collectives, GatheredAndScatteredPartsStandInTheOrderOfTheGroup) {
  Ranks ranks(2);
  const std::vector<std::vector<float>> inputs = {{1, 2}, {3, 4}};
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::string input = ranks.Leaf(rank, "in.npy", inputs[rank]);
    ranks.Add(rank, "Distributed.all_gather_into_tensor.0.forward",
              ranks.Leaf(rank, "buffer.npy", {0, 0, 0, 0}) + ", " + input, std::string(kGroup),
              ranks.Leaf(rank, "all.npy", {1, 2, 3, 4}));
    ranks.Add(rank, "Distributed.reduce_scatter_tensor.0.forward",
              ranks.Leaf(rank, "part.npy", {0}) + ", " + input, std::string(kGroup),
              ranks.Leaf(rank, "sum.npy", {rank == 0 ? 4.0F : 6.5F}));
  }
  const Answer answer = ranks.Check();
  EXPECT_EQ(answer.within, 3U);
  EXPECT_EQ(answer.beyond, 1U);  // 6 is the sum that rank 1 should have got
}

// Capture writes all arguments of a communication after it ran, hence more than its result.
TEST(Collectives, ListsOfTensorsAreGatheredBitByBit) {
  for (const float wrong : {0.0F, 1e-6F}) {
    Ranks ranks(2);
    for (size_t rank = 0; rank < 2; ++rank) {
      const std::string own = ranks.Leaf(rank, "own.npy", {rank == 0 ? 1.0F : 2.5F});
      const std::string buffers =
          "[" + ranks.Leaf(rank, "a.npy", {0}) + ", " + ranks.Leaf(rank, "b.npy", {0}) + "]";
      const std::string all = "[" + ranks.Leaf(rank, "c.npy", {1}) + ", " +
                              ranks.Leaf(rank, "d.npy", {2.5F + (rank == 1 ? wrong : 0)}) + "], " +
                              own;
      ranks.Add(rank, "Distributed.all_gather.0.forward", buffers + ", " + own, std::string(kGroup),
                all);
    }
    const Answer answer = ranks.Check();
    EXPECT_EQ(answer.within, wrong == 0 ? 2U : 1U);
    EXPECT_EQ(answer.beyond, wrong == 0 ? 0U : 1U);
  }
}

// The number is that of the rank, not its place in the group.
TEST(Collectives, ABroadcastComesFromTheRankThatItNames) {
  const std::string group = R"("group": {"type": "torch.ProcessGroup", "group_ranks": [1, 0]})";
  Ranks ranks(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    ranks.Add(rank, "Distributed.broadcast.0.forward",
              ranks.Leaf(rank, "in.npy", {rank == 0 ? 1.0F : 2.0F}),
              R"("src": )" + Integer(1) + ", " + group, ranks.Leaf(rank, "out.npy", {2}));
    ranks.Add(rank, "Distributed.broadcast.1.forward",
              ranks.Leaf(rank, "in.npy", {rank == 0 ? 1.0F : 2.0F}),
              R"("src": )" + Integer(5) + ", " + group, ranks.Leaf(rank, "out.npy", {2}));
  }
  const Answer answer = ranks.Check();
  EXPECT_EQ(answer.within, 2U);
  ASSERT_EQ(answer.not_checkable, 2U);
  EXPECT_THAT(answer.calls[1].checked().reason, HasSubstr("rank 5 is none of its group"));
}

TEST(Collectives, OnlyTheRankThatAResultGoesToIsHeldAgainstIt) {
  Ranks ranks(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::string own = ranks.Leaf(rank, "own.npy", {rank == 0 ? 1.0F : 2.0F});
    ranks.Add(rank, "Distributed.reduce.0.forward", own,
              R"("dst": )" + Integer(1) + ", " + std::string(kGroup),
              ranks.Leaf(rank, "sum.npy", {3}));
    const std::string list =
        "[" + ranks.Leaf(rank, "a.npy", {1}) + ", " + ranks.Leaf(rank, "b.npy", {2}) + "]";
    ranks.Add(rank, "Distributed.gather.0.forward", own + ", " + (rank == 0 ? list : "null"),
              R"("dst": )" + Integer(0) + ", " + std::string(kGroup),
              own + (rank == 0 ? ", " + list : ""));
  }
  const Answer answer = ranks.Check();
  EXPECT_EQ(answer.within, 2U);
  EXPECT_EQ(answer.not_checkable, 2U);
}

TEST(Collectives, PartsOfAListGoToTheRanksInTheirOrder) {
  Ranks ranks(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    const float scale = rank == 0 ? 1 : 10;
    const std::string list = "[" + ranks.Leaf(rank, "a.npy", {1 * scale, 2 * scale}) + ", " +
                             ranks.Leaf(rank, "b.npy", {3 * scale, 4 * scale}) + "]";
    const std::string buffer = ranks.Leaf(rank, "buffer.npy", {0, 0});
    const bool first = rank == 0;
    ranks.Add(rank, "Distributed.reduce_scatter.0.forward", buffer + ", " + list,
              std::string(kGroup),
              ranks.Leaf(rank, "sum.npy",
                         first ? std::vector<float>{11, 22} : std::vector<float>{33, 44}) +
                  ", " + list);
    ranks.Add(rank, "Distributed.scatter.0.forward", buffer + ", " + (first ? "null" : list),
              R"("src": )" + Integer(1) + ", " + std::string(kGroup),
              ranks.Leaf(rank, "part.npy",
                         first ? std::vector<float>{10, 20} : std::vector<float>{30, 40}));
    ranks.Add(
        rank, "Distributed.all_to_all.0.forward", "[" + buffer + ", " + buffer + "], " + list,
        std::string(kGroup),
        "[" +
            ranks.Leaf(rank, "c.npy", first ? std::vector<float>{1, 2} : std::vector<float>{3, 4}) +
            ", " +
            ranks.Leaf(rank, "d.npy",
                       first ? std::vector<float>{10, 20} : std::vector<float>{30, 40}) +
            "], " + list);
  }
  const Answer answer = ranks.Check();
  EXPECT_EQ(answer.within, 6U);
}

TEST(Collectives, SplitSizesDivideWhatIsSentToEachRank) {
  Ranks ranks(2);
  const std::vector<std::vector<float>> inputs = {{1, 2, 3}, {4, 5, 6}};
  // Rank 0 sends one and two, rank 1 two and one.
  const std::vector<std::vector<float>> outputs = {{1, 4, 5}, {2, 3, 6}};
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::string input = ranks.Leaf(rank, "in.npy", inputs[rank]);
    ranks.Add(rank, "Distributed.all_to_all_single.0.forward",
              ranks.Leaf(rank, "buffer.npy", {0, 0, 0}) + ", " + input,
              R"("input_split_sizes": [)" + Integer(rank == 0 ? 1 : 2) + ", " +
                  Integer(rank == 0 ? 2 : 1) + "], " + std::string(kGroup),
              ranks.Leaf(rank, "out.npy", outputs[rank]) + ", " + input);
  }
  EXPECT_EQ(ranks.Check().within, 2U);
}

// Rows of several dims, and a rank that sends nothing.
TEST(Collectives, RowsOfSeveralElementsStayTogetherWhenTheyAreSent) {
  Ranks ranks(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    const bool first = rank == 0;
    const std::string input =
        ranks.Leaf(rank, "in.npy", first ? std::vector<float>{} : std::vector<float>{1, 2, 3, 4},
                   {first ? 0 : 2, 1, 2});
    ranks.Add(rank, "Distributed.all_to_all_single.0.forward", input + ", " + input,
              std::string(kGroup),
              ranks.Leaf(rank, "out.npy",
                         first ? std::vector<float>{1, 2} : std::vector<float>{3, 4}, {1, 1, 2}));
  }
  EXPECT_EQ(ranks.Check().within, 2U);
}

}  // namespace
}  // namespace msprobe::analysis::recheck
