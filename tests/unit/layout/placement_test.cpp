#include "src/layout/placement.h"

#include <vector>

#include <gtest/gtest.h>

namespace msprobe::layout {
namespace {

constexpr auto kTensorAxis = static_cast<size_t>(Axis::kTensor);
constexpr auto kDataAxis = static_cast<size_t>(Axis::kData);

Placement Along(size_t axis, int64_t parts, Spread spread) {
  Placement placement;
  placement.grid[axis] = parts;
  placement.spreads[axis] = std::move(spread);
  return placement;
}

Spread ShardOf(int64_t dimension, PartOrder order = PartOrder::kContiguous, int64_t blocks = 1) {
  return {SpreadKind::kShard, dimension, order, blocks, {}, false};
}

TEST(Placement, IsSpelledAsTheTableShowsIt) {
  EXPECT_EQ(Placement().Text(), "whole");
  EXPECT_EQ(Along(kTensorAxis, 4, {}).Text(), "replicated x4");
  Placement placement = Along(kTensorAxis, 2, ShardOf(1, PartOrder::kBlocks, 3));
  placement.grid[kDataAxis] = 2;
  placement.spreads[kDataAxis] = ShardOf(0);
  placement.grid[0] = 2;
  placement.spreads[0] = ShardOf(0);
  EXPECT_EQ(placement.Text(), "shard dim 0 x4 + shard dim 1 x2 blocks 3");
  placement.stage = 1;
  placement.padded_to = 64;
  EXPECT_EQ(placement.Text(), "shard dim 0 x4 + shard dim 1 x2 blocks 3 + stage 1 + padded to 64");
  placement.spreads[kDataAxis].kind = SpreadKind::kUnknown;
  EXPECT_EQ(placement.Text(), "unknown");
  Placement expert;
  expert.only_rank = 3;
  EXPECT_EQ(expert.Text(), "rank 3");
  EXPECT_EQ(
      Along(kDataAxis, 2, {SpreadKind::kPartial, 0, PartOrder::kContiguous, 1, {}, true}).Text(),
      "partial x2");
}

TEST(Placement, CombinesStatisticsOfParts) {
  const std::vector<PieceStatistics> parts = {{{3.0, -1.0, 1.0, 3.0}, 4},
                                              {{5.0, 0.0, 2.0, 4.0}, 12}};
  const PieceStatistics whole = CombineStatistics(Along(kTensorAxis, 2, ShardOf(0)), parts);
  EXPECT_EQ(whole.elements, 16);
  EXPECT_EQ(*whole.values[0], 5);
  EXPECT_EQ(*whole.values[1], -1);
  EXPECT_EQ(*whole.values[2], 1.75);
  EXPECT_EQ(*whole.values[3], 5);
}

TEST(Placement, KnowsOfSummandsTheMeanAlone) {
  const std::vector<PieceStatistics> parts = {{{3.0, -1.0, 1.0, 3.0}, 4},
                                              {{5.0, 0.0, 2.0, 4.0}, 4}};
  const PieceStatistics whole =
      CombineStatistics(Along(kTensorAxis, 2, {SpreadKind::kPartial, 0, {}, 1, {}, false}), parts);
  EXPECT_FALSE(whole.values[0]);
  EXPECT_EQ(*whole.values[2], 3);
  EXPECT_FALSE(whole.values[3]);
}

TEST(Placement, RefusesPiecesThatDoNotFit) {
  EXPECT_FALSE(WholeShape(Along(kTensorAxis, 2, ShardOf(0)), std::vector<Shape>{{2, 3}, {2, 4}}));
  EXPECT_FALSE(WholeShape(Along(kTensorAxis, 2, ShardOf(5)), std::vector<Shape>{{2}, {2}}));
  EXPECT_FALSE(WholeShape(Along(kTensorAxis, 2, {}), std::vector<Shape>{{2}, {3}}));
  EXPECT_FALSE(WholeShape(Along(kTensorAxis, 3, {}), std::vector<Shape>{{2}, {2}}));
  EXPECT_FALSE(WholeShape(Along(kTensorAxis, 2, ShardOf(0)),
                          std::vector<Shape>{{int64_t{1} << 62U}, {int64_t{1} << 62U}}));
  EXPECT_FALSE(WholeShape(Along(kTensorAxis, 2, ShardOf(0, PartOrder::kBlocks, 3)),
                          std::vector<Shape>{{4}, {4}}));
  EXPECT_EQ(WholeShape(Along(kTensorAxis, 2, ShardOf(0)), std::vector<Shape>{{2, 3}, {1, 3}}),
            (Shape{3, 3}));
}

}  // namespace
}  // namespace msprobe::layout
