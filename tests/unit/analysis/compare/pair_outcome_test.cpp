#include "src/analysis/compare/pair_outcome.h"

#include <string>
#include <string_view>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/compare/summary.h"
#include "src/base/packed.h"

namespace msprobe::analysis::compare {
namespace {

using ::testing::ElementsAre;

PairSummary MadePair(int64_t rank, uint64_t differing, std::string_view call) {
  PairSummary pair;
  pair.npu_path = "a/dump.json";
  pair.rank = rank;
  pair.mode = CompareMode::kMd5;
  pair.counts.rows = 100;
  pair.counts.identical = pair.counts.agreeing = 100 - differing;
  pair.counts.differing = differing;
  if (!call.empty()) {
    DivergencePoint point;
    point.kind = OriginKind::kComputation;
    point.entry_name = call;
    point.confidence = Confidence::kCertain;
    point.wrong_side = SideOpinion{WrongSide::kBoth, "both"};
    point.argument = ArgumentDifference{"input.1", "1", "2"};
    point.stack = {"a", "b"};
    pair.divergence.first_origin = point;
    pair.divergence.first_of_kind[2] = point;
    pair.divergence.amplifiers = {point, point};
  }
  pair.files = {"out/x.csv"};
  return pair;
}

TEST(PairOutcome, SaysTheSameInAnotherProcess) {
  LaneOutcome lane;
  PairOutcome& outcome = lane.pairs.emplace_back();
  outcome.summary = MadePair(3, 7, "Torch.mul.0.forward");
  outcome.remarks = {{"once", true}, {"always", false}};
  outcome.page = ComparePage::Part{.is_left_out = false, .elements = {"x"}, .rows = 5};
  std::string bytes;
  base::Packer pack(bytes);
  pack(lane);
  LaneOutcome read;
  base::Unpacker unpack(bytes);
  unpack(read);
  ASSERT_TRUE(unpack.Ended());
  RunSummary before;
  RunSummary after;
  before.pairs = {lane.pairs[0].summary};
  after.pairs = {read.pairs[0].summary};
  EXPECT_EQ(SummaryJson(after, 0), SummaryJson(before, 0));
  EXPECT_TRUE(read.pairs[0].remarks[0].once);
  EXPECT_EQ(read.pairs[0].page->rows, 5U);
  // No part of it is a whole one.
  for (size_t size = 0; size < bytes.size(); ++size) {
    base::Unpacker cut(std::string_view(bytes).substr(0, size));
    LaneOutcome ignored;
    cut(ignored);
    EXPECT_FALSE(cut.Ended());
  }
}

TEST(GroupPairs, RanksThatPartAtTheSameCallAreOneGroup) {
  RunSummary summary;
  for (int64_t rank = 0; rank < 12; ++rank) {
    summary.pairs.push_back(rank % 3 == 2   ? MadePair(rank, 0, "")
                            : rank % 3 == 1 ? MadePair(rank, 9, "Torch.mul.0.forward")
                                            : MadePair(rank, 5, "Torch.add.0.forward"));
  }
  summary.pairs[1].counts.differing = 3;
  const std::vector<PairGroup> groups = GroupPairs(summary);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(GroupName(summary, groups[0]), "ranks 1, 4, 7, 10");
  EXPECT_EQ(GroupName(summary, groups[1]), "ranks 0, 3, 6, 9");
  EXPECT_EQ(GroupName(summary, groups[2]), "ranks 2, 5, 8, 11");
  EXPECT_THAT(LeadingPairs(summary), ElementsAre(1U, 0U));
  for (PairSummary& pair : summary.pairs) {
    pair.step = 4;
    pair.divergence.first_origin.reset();
    pair.counts.differing = 0;
  }
  summary.pairs[5].error = "broken";
  const std::vector<PairGroup> others = GroupPairs(summary);
  ASSERT_EQ(others.size(), 2U);
  EXPECT_EQ(GroupName(summary, others[0]), "step4/rank5");
  EXPECT_EQ(GroupName(summary, others[1]), "step4/ranks 0-4, 6-11");
}

// Which pairs have their rows on the page does not depend on the order in which they come.
TEST(ComparePage, KeepsTheSamePairsInAnyOrder) {
  const auto kept = [](bool reversed) {
    ComparePage page;
    for (size_t i = 0; i < 8; ++i) {
      const size_t index = reversed ? 7 - i : i;
      // The third one has no room, and the small ones behind it do not take its place.
      const size_t size = index == 2 ? 4'000'000 : index < 2 ? 1'000'000 : 10;
      page.Take(index, MadePair(static_cast<int64_t>(index), 1, "Torch.mul.0.forward"),
                {.is_left_out = false, .elements = {std::string(size, 'x')}, .rows = 1});
    }
    std::string places;
    for (size_t index = 0; index < 8; ++index) {
      const auto part =
          page.GiveAway(index, MadePair(static_cast<int64_t>(index), 1, "Torch.mul.0.forward"));
      places += !part ? '-' : part->is_left_out ? 'x' : '+';
    }
    return places;
  };
  EXPECT_EQ(kept(false), "++x-----");
  EXPECT_EQ(kept(true), "++x-----");
}

}  // namespace
}  // namespace msprobe::analysis::compare
