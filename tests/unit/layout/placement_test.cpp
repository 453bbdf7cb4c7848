#include "src/layout/placement.h"

#include <cstring>
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

// The whole of float32 pieces.
std::vector<float> Assembled(const Placement& placement, const Shape& shape,
                             const std::vector<std::vector<float>>& pieces) {
  const OpenPiece open = [&](size_t piece) -> Result<TensorView> {
    return tensor::RowMajorView(DType::kFloat32, shape, std::as_bytes(std::span(pieces[piece])));
  };
  const Result<tensor::TensorBuffer> whole = AssembleWhole(placement, open, size_t{1} << 20U);
  EXPECT_TRUE(whole.ok()) << whole.status().message();
  if (!whole.ok()) {
    return {};
  }
  std::vector<float> values(static_cast<size_t>(whole->view().element_count()));
  std::memcpy(values.data(), whole->view().data, values.size() * sizeof(float));
  return values;
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

TEST(Placement, JoinsPartsInEveryOrder) {
  const std::vector<std::vector<float>> pieces = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  EXPECT_EQ(Assembled(Along(kTensorAxis, 2, ShardOf(0)), {4}, pieces),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(Assembled(Along(kTensorAxis, 2, ShardOf(0, PartOrder::kBlocks, 2)), {4}, pieces),
            (std::vector<float>{0, 1, 4, 5, 2, 3, 6, 7}));
  EXPECT_EQ(Assembled(Along(kTensorAxis, 2, ShardOf(0, PartOrder::kZigzag)), {4}, pieces),
            (std::vector<float>{0, 1, 4, 5, 6, 7, 2, 3}));
  EXPECT_EQ(Assembled(Along(kTensorAxis, 2, ShardOf(0, PartOrder::kInterleaved)), {4}, pieces),
            (std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(Assembled(Along(kTensorAxis, 2, ShardOf(1)), {2, 2}, pieces),
            (std::vector<float>{0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(Placement, SumsInDoubleAndRoundsOnce) {
  const std::vector<std::vector<float>> pieces = {{1e8F, 1}, {1, 2}, {-1e8F, 3}};
  EXPECT_EQ(
      Assembled(Along(kTensorAxis, 3, {SpreadKind::kPartial, 0, {}, 1, {}, false}), {2}, pieces),
      (std::vector<float>{1, 6}));
  EXPECT_EQ(
      Assembled(Along(kDataAxis, 3, {SpreadKind::kPartial, 0, {}, 1, {}, true}), {2}, pieces)[1],
      2);
}

TEST(Placement, JoinsSeveralAxes) {
  Placement placement = Along(kTensorAxis, 2, ShardOf(1));
  placement.grid[kDataAxis] = 2;
  placement.spreads[kDataAxis] = ShardOf(0);
  EXPECT_EQ(Assembled(placement, {1, 2}, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Placement, MicroBatchesMayBePartsOfWhatAReplicaHas) {
  Placement placement = Along(0, 2, ShardOf(0));
  placement.grid[kDataAxis] = 2;
  placement.spreads[kDataAxis] = ShardOf(0);
  const std::vector<std::vector<float>> pieces = {{0}, {1}, {2}, {3}};
  EXPECT_EQ(Assembled(placement, {1}, pieces), (std::vector<float>{0, 1, 2, 3}));
  placement.data_outside = true;
  EXPECT_EQ(Assembled(placement, {1}, pieces), (std::vector<float>{0, 2, 1, 3}));
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
