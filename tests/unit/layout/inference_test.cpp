#include "src/layout/inference.h"

#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::layout {
namespace {

constexpr auto kTensor = static_cast<size_t>(Axis::kTensor);
constexpr auto kData = static_cast<size_t>(Axis::kData);

PieceStatistics StatisticsOf(const std::vector<double>& values) {
  double largest = values[0];
  double smallest = values[0];
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    largest = std::max(largest, value);
    smallest = std::min(smallest, value);
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  return {{largest, smallest, sum / count, std::sqrt(squares)}, count};
}

Pieces Whole(Shape shape, const std::vector<double>& values) {
  Pieces pieces;
  pieces.shapes = {std::move(shape)};
  pieces.statistics = {StatisticsOf(values)};
  return pieces;
}

Pieces Parts(size_t axis, Shape shape, const std::vector<std::vector<double>>& values) {
  Pieces pieces;
  pieces.grid[axis] = static_cast<int64_t>(values.size());
  for (const std::vector<double>& part : values) {
    pieces.shapes.push_back(shape);
    pieces.statistics.push_back(StatisticsOf(part));
  }
  return pieces;
}

TEST(Inference, TellsShardsByTheShapeOfTheWhole) {
  const Spreads spreads =
      InferSpreads(Parts(kTensor, {2, 1}, {{1, 2}, {3, 4}}), Whole({2, 2}, {1, 3, 2, 4}));
  EXPECT_TRUE(spreads.fits);
  EXPECT_EQ(spreads.npu.Text(), "shard dim 1 x2");
  EXPECT_EQ(spreads.bench.Text(), "whole");
}

TEST(Inference, TakesEqualPiecesOfTheWholesShapeForCopies) {
  EXPECT_EQ(InferSpreads(Parts(kTensor, {2}, {{1, 2}, {1, 2}}), Whole({2}, {1, 2})).npu.Text(),
            "replicated x2");
}

TEST(Inference, TakesPiecesThatAddUpForSummands) {
  EXPECT_EQ(InferSpreads(Parts(kTensor, {2}, {{1, 2}, {3, 5}}), Whole({2}, {4, 7})).npu.Text(),
            "partial x2");
  // A mean of means is one over shares of the data only.
  EXPECT_TRUE(
      InferSpreads(Parts(kData, {}, {{1}, {3}}), Whole({}, {2})).npu.spreads[kData].is_mean);
  EXPECT_EQ(InferSpreads(Parts(kTensor, {2}, {{1, 2}, {3, 5}}), Whole({2}, {1, 2})).npu.Text(),
            "replicated x2");
}

TEST(Inference, SummandsThatWereRoundedToANarrowDtypeAreSummandsWhereNoneIsACopy) {
  Pieces summands = Parts(kTensor, {4}, {{1, -2, 3, 1}, {2, 1, -1, 1.5}});
  EXPECT_EQ(InferSpreads(summands, Whole({4}, {3.04, -1, 2.02, 2.52})).npu.Text(), "replicated x2");
  summands.unit = 0x1p-8;  // bfloat16
  EXPECT_EQ(InferSpreads(summands, Whole({4}, {3.04, -1, 2.02, 2.52})).npu.Text(), "partial x2");
  EXPECT_EQ(InferSpreads(summands, Whole({4}, {3.5, -1, 2.5, 2.5})).npu.Text(), "replicated x2");
  Pieces one_is_right = Parts(kTensor, {4}, {{1, -2, 3, 1}, {0.1, -0.1, 0.1, -0.08}});
  one_is_right.unit = 0x1p-8;
  EXPECT_EQ(InferSpreads(one_is_right, Whole({4}, {1, -2, 3, 1})).npu.Text(), "replicated x2");
}

// A side of TP 2 x DP 2 whose four pieces add up to what the two pieces of TP 2 do.
TEST(Inference, DecidesSummandsOfAllAxesOfBothSidesTogether) {
  Pieces four = Parts(kTensor, {2}, {{1, 2}, {2, -7}, {3, 5}, {4, 9}});
  four.grid = {1, 2, 1, 2};
  Pieces two = Parts(kTensor, {2}, {{10, -3}, {0, 12}});
  const Shape shape = {2};
  four.whole = two.whole = &shape;
  const Spreads spreads = InferSpreads(four, two);
  EXPECT_EQ(spreads.npu.Text(), "partial x4");
  EXPECT_EQ(spreads.bench.Text(), "partial x2");
  EXPECT_FALSE(spreads.npu.spreads[kData].is_mean);
}

// All means are zero: that the pieces are summands along one axis does not tell which one.
TEST(Inference, SaysUnknownWhereSeveralWaysToSumFit) {
  Pieces four = Parts(kTensor, {2}, {{1, -1}, {2, -2}, {3, -3}, {4, -4}});
  four.grid = {1, 2, 1, 2};
  EXPECT_EQ(InferSpreads(four, Whole({2}, {8, -8})).npu.Text(), "unknown");
}

// The gradient of a norm, shared out over the data on one side and copied on the other: by its
// values alone the copies could be halves.
TEST(Inference, AGradientHasTheShapeOfItsParameter) {
  const Shape shape = {2};
  Pieces summands = Parts(kData, shape, {{0.5, -1}, {-1.5, 3}});
  Pieces copies = Parts(kTensor, shape, {{-1, 2}, {-1, 2}});
  summands.whole = copies.whole = &shape;
  const Spreads spreads = InferSpreads(summands, copies);
  EXPECT_EQ(spreads.npu.Text(), "partial x2");
  EXPECT_EQ(spreads.bench.Text(), "replicated x2");
}

TEST(Inference, ConstantPartsAreStillParts) {
  EXPECT_EQ(
      InferSpreads(Parts(kTensor, {2}, {{0, 0}, {0, 0}}), Whole({4}, {0, 0, 0, 0})).npu.Text(),
      "shard dim 0 x2");
}

TEST(Inference, DecidesTwoJoinedSidesTogether) {
  const Spreads spreads = InferSpreads(Parts(kTensor, {1, 2}, {{1, 2}, {3, 4}, {5, 6}, {7, 8}}),
                                       Parts(kTensor, {2, 2}, {{1, 2, 3, 4}, {5, 6, 7, 8}}));
  EXPECT_EQ(spreads.npu.Text(), "shard dim 0 x4");
  EXPECT_EQ(spreads.bench.Text(), "shard dim 0 x2");
}

TEST(Inference, TellsTwoAxesApart) {
  Pieces pieces = Parts(kTensor, {1, 1}, {{1}, {2}, {3}, {4}});
  pieces.grid = {1, 2, 1, 2};
  EXPECT_EQ(InferSpreads(pieces, Whole({2, 2}, {1, 2, 3, 4})).npu.Text(),
            "shard dim 0 x2 + shard dim 1 x2");
  Pieces copies = Parts(kTensor, {1, 2}, {{1, 2}, {1, 2}, {3, 4}, {3, 4}});
  copies.grid = {1, 2, 1, 2};
  EXPECT_EQ(InferSpreads(copies, Whole({2, 2}, {1, 2, 3, 4})).npu.Text(),
            "replicated x2 + shard dim 0 x2");
}

TEST(Inference, MicroBatchesAndReplicasHaveSamplesAlongOneDimension) {
  constexpr size_t kMicroBatch = 0;
  Pieces pieces = Parts(kMicroBatch, {1, 2}, {{1, 2}, {3, 4}, {5, 6}, {7, 8}});
  pieces.grid = {2, 2, 1, 1};
  const Pieces batches = Parts(kMicroBatch, {2, 2}, {{1, 2, 5, 6}, {3, 4, 7, 8}});
  EXPECT_EQ(InferSpreads(pieces, batches).npu.Text(), "shard dim 0 x4");
}

TEST(Inference, SaysUnknownWhereShapesDoNotFit) {
  const Spreads spreads =
      InferSpreads(Parts(kTensor, {3}, {{1, 2, 3}, {4, 5, 6}}), Whole({2}, {1, 2}));
  EXPECT_FALSE(spreads.fits);
  EXPECT_EQ(spreads.npu.Text(), "unknown");
}

TEST(Inference, ARecordThatTheShapesContradictIsIgnored) {
  ParameterRecord record;
  record.kind = ParameterKind::kShard;
  record.parts = 2;
  record.global_shape = {2, 4};
  Pieces pieces = Parts(kTensor, {2, 2}, {{1, 2, 3, 4}, {5, 6, 7, 8}});
  pieces.record = &record;
  const Spreads spreads = InferSpreads(pieces, Whole({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(spreads.npu.Text(), "shard dim 0 x2");
  EXPECT_TRUE(spreads.ignores_record[0]);
}

TEST(Inference, ARecordGivesTheBlocksOfAFusedProjection) {
  ParameterRecord record;
  record.kind = ParameterKind::kShard;
  record.parts = 2;
  record.global_shape = {6, 1};
  record.blocks = {2, 2, 2};
  Pieces pieces = Parts(kTensor, {3, 1}, {{1, 3, 5}, {2, 4, 6}});
  pieces.record = &record;
  EXPECT_EQ(InferSpreads(pieces, Whole({6, 1}, {1, 2, 3, 4, 5, 6})).npu.Text(),
            "shard dim 0 x2 blocks 3");
}

TEST(Inference, AVocabularyMayBePadded) {
  ParameterRecord record;
  record.kind = ParameterKind::kShard;
  record.parts = 2;
  record.global_shape = {8, 1};
  record.padded_to = 8;
  Pieces pieces = Parts(kTensor, {4, 1}, {{1, 2, 3, 4}, {5, 6, 7, 0}});
  pieces.record = &record;
  const Spreads spreads = InferSpreads(pieces, Whole({7, 1}, {1, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(spreads.fits);
  EXPECT_TRUE(spreads.is_padded);
  EXPECT_EQ(spreads.npu.Text(), "shard dim 0 x2 + padded to 8");
}

}  // namespace
}  // namespace msprobe::layout
