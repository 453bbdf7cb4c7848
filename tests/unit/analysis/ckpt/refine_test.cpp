#include <gtest/gtest.h>

#include "src/analysis/ckpt/block_sums.h"
#include "tests/unit/analysis/ckpt/parameters.h"

namespace msprobe::analysis::ckpt {
namespace {

std::vector<Shape> OffsetsOf(const std::vector<Box>& boxes) {
  std::vector<Shape> offsets;
  for (const Box& box : boxes) {
    offsets.push_back(box.offset);
  }
  return offsets;
}

TEST(Refine, LeavesTwoWholesInOneBox) {
  Memory memory;
  const checkpoint::Parameter a = memory.Floats("w", {2, 3}, Noise(6, 1));
  const std::vector<Box> boxes = *Refine(a, a);
  ASSERT_EQ(boxes.size(), 1U);
  EXPECT_EQ(boxes[0].a.shape, (Shape{2, 3}));
  EXPECT_TRUE(boxes[0].plain_a);
  EXPECT_TRUE(boxes[0].plain_b);
}

TEST(Refine, CutsRowsOfOneSideAndColumnsOfTheOther) {
  Memory memory;
  const checkpoint::Parameter whole = memory.Floats("w", {4, 6}, Noise(24, 1));
  const std::vector<Box> boxes = *Refine(memory.Sharded(whole, 0, std::vector<int64_t>{1, 3}),
                                         memory.Sharded(whole, 1, std::vector<int64_t>{4, 2}));
  EXPECT_EQ(OffsetsOf(boxes), (std::vector<Shape>{{0, 0}, {0, 4}, {1, 0}, {1, 4}}));
  int64_t covered = 0;
  for (const Box& box : boxes) {
    EXPECT_EQ(box.a.shape, box.b.shape);
    covered += box.element_count();
  }
  EXPECT_EQ(covered, 24);
  EXPECT_FALSE(boxes[2].plain_a);  // three rows, four of six columns
  EXPECT_TRUE(boxes[2].plain_b);
}

TEST(Refine, PairsUnevenShardsOfThousands) {
  Memory memory;
  const checkpoint::Parameter whole = memory.Floats("w", {3000}, Noise(3000, 1));
  const std::vector<Box> boxes = *Refine(memory.Sharded(whole, 0, std::vector<int64_t>(1000, 3)),
                                         memory.Sharded(whole, 0, std::vector<int64_t>(1500, 2)));
  EXPECT_EQ(boxes.size(), 2000U);
  int64_t next = 0;
  for (const Box& box : boxes) {
    EXPECT_EQ(box.offset[0], next);
    next += box.element_count();
  }
  EXPECT_EQ(next, 3000);
}

// Adds up the boxes, which come in order and do not overlap.
void ExpectTiles(const std::vector<Box>& boxes, int64_t elements) {
  int64_t covered = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    covered += boxes[i].element_count();
    EXPECT_TRUE(i == 0 || boxes[i - 1].offset < boxes[i].offset);
  }
  EXPECT_EQ(covered, elements);
}

TEST(Refine, PairsColumnsOfTensOfThousandsWithoutALookAtAllPairs) {
  Memory memory;
  const checkpoint::Parameter whole = memory.Floats("w", {1, 60'000}, Noise(60'000, 1));
  const std::vector<Box> boxes = *Refine(memory.Sharded(whole, 1, std::vector<int64_t>(30'000, 2)),
                                         memory.Sharded(whole, 1, std::vector<int64_t>(20'000, 3)));
  EXPECT_EQ(boxes.size(), 40'000U);
  ExpectTiles(boxes, 60'000);
}

TEST(Refine, PairsTilingsThatAreCutAlongEitherAxis) {
  Memory memory;
  const checkpoint::Parameter half = memory.Floats("w", {60, 60}, Noise(3600, 1));
  const auto cut = [&](size_t axis, int64_t size) {
    return memory.Sharded(half, axis, std::vector<int64_t>(static_cast<size_t>(60 / size), size));
  };
  const std::vector<checkpoint::Parameter> a = {cut(0, 1), cut(1, 1)};
  const std::vector<checkpoint::Parameter> b = {cut(0, 2), cut(0, 3)};
  const std::vector<Box> boxes =
      *Refine(*checkpoint::Concatenate(a, 1), *checkpoint::Concatenate(b, 1));
  EXPECT_EQ(boxes.size(), 60U + 60U * 20U);
  ExpectTiles(boxes, 7200);
}

TEST(Refine, RefusesMoreBoxesThanMemoryIsFor) {
  Memory memory;
  const checkpoint::Parameter whole = memory.Floats("w", {60, 60}, Noise(3600, 1));
  const std::vector<int64_t> ones(60, 1);
  const checkpoint::Parameter rows = memory.Sharded(whole, 0, ones);
  const checkpoint::Parameter columns = memory.Sharded(whole, 1, ones);
  EXPECT_EQ(Refine(rows, columns)->size(), 3600U);
  EXPECT_EQ(Refine(rows, columns, 1000).status().code(), StatusCode::kUnsupported);
}

TEST(Refine, KeepsScalarsAndEmptyParameters) {
  Memory memory;
  const checkpoint::Parameter scalar = memory.Floats("s", {}, {2.0F});
  ASSERT_EQ(Refine(scalar, scalar)->size(), 1U);
  EXPECT_EQ((*Refine(scalar, scalar))[0].element_count(), 1);
  const checkpoint::Parameter empty = memory.Floats("e", {0, 3}, {});
  EXPECT_TRUE(Refine(empty, empty)->empty());
}

}  // namespace
}  // namespace msprobe::analysis::ckpt
