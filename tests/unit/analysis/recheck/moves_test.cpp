// Elements that calls move, and gradients that they hand on.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/analysis/recheck/made_dump.h"

namespace msprobe::analysis::recheck {
namespace {

// Of 1, 2, 3.
Verdict JudgedCircle(int64_t before, int64_t after, const std::vector<float>& output) {
  Ranks ranks(1);
  ranks.Add(0, "Functional.pad.0.forward",
            ranks.Leaf(0, "in.npy", {1, 2, 3}, {1, 1, 3}) + ", [" + Integer(before) + ", " +
                Integer(after) + "]",
            R"("mode": {"type": "str", "value": "circular"})",
            ranks.Leaf(0, "out.npy", output, {1, 1, static_cast<int64_t>(output.size())}));
  return ranks.Check().calls[0].verdict();
}

TEST(Pad, ClosesACircle) {
  EXPECT_EQ(JudgedCircle(2, 1, {2, 3, 1, 2, 3, 1}), Verdict::kWithin);
  EXPECT_EQ(JudgedCircle(2, 1, {1, 3, 1, 2, 3, 1}), Verdict::kBeyond);
}

TEST(Pad, ClosesACircleAroundWhatNegativePaddingLeaves) {
  EXPECT_EQ(JudgedCircle(-1, 2, {2, 3, 2, 3}), Verdict::kWithin);
  EXPECT_EQ(JudgedCircle(1, -1, {2, 1, 2}), Verdict::kWithin);
  EXPECT_EQ(JudgedCircle(-1, 2, {2, 3, 1, 2}), Verdict::kBeyond);
}

TEST(Pad, OfACircleLongerThanItIsImpossible) {
  EXPECT_EQ(JudgedCircle(-2, 2, {3, 3, 3}), Verdict::kNotCheckable);
  EXPECT_EQ(JudgedCircle(-3, 0, {}), Verdict::kWithin);
}

// Two products of a 2 x 2 matrix and a column; the gradient that comes in is 1, 2, 3, 4.
Verdict JudgedProductOfABatch(const std::vector<float>& outgoing) {
  const std::vector<float> matrices = {1, 2, 3, 4, 5, 6, 7, 8};
  const Shape columns = {2, 2, 1};
  Ranks ranks(1);
  ranks.Add(0, "Torch.matmul.0.forward",
            ranks.Leaf(0, "a.npy", matrices, {2, 2, 2}) + ", " +
                ranks.Leaf(0, "b.npy", {1, 1, 2, 1}, columns),
            "", ranks.Leaf(0, "out.npy", {3, 7, 16, 22}, columns));
  ranks.AddBackward(0, "Torch.matmul.0.backward", ranks.Leaf(0, "gi.npy", {1, 2, 3, 4}, columns),
                    ranks.Leaf(0, "go.npy", outgoing, columns));
  const Answer answer = ranks.Check();
  return answer.calls[1].verdict();
}

TEST(Matmul, OfABatchIsAViewThatHandsItsGradientOn) {
  EXPECT_EQ(JudgedProductOfABatch({1, 2, 3, 4}), Verdict::kWithin);
}

TEST(Matmul, OfABatchHandsTheGradientOfItsInputOn) {
  EXPECT_EQ(JudgedProductOfABatch({7, 10, 43, 50}), Verdict::kWithin);
  EXPECT_EQ(JudgedProductOfABatch({7, 10, 43, 51}), Verdict::kBeyond);
}

}  // namespace
}  // namespace msprobe::analysis::recheck
