// Captured gradients whose elements stand in another order than they should: no step of the call
// has such a gradient, though loops of ours move dims and what comes in has as many elements.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/analysis/recheck/made_dump.h"

namespace msprobe::analysis::recheck {
namespace {

TEST(OrderOfGradients, OfASoftmaxOverTheFirstDim) {
  const auto judged = [](const std::vector<float>& gradient) {
    Ranks ranks(1);
    ranks.Add(0, "Functional.softmax.0.forward", ranks.Leaf(0, "x.npy", {0, 1, 2, 3}, {2, 2}),
              R"("dim": {"type": "int", "value": 0})",
              ranks.Leaf(0, "y.npy", {0.11920292F, 0.11920292F, 0.8807971F, 0.8807971F}, {2, 2}));
    ranks.AddBackward(0, "Functional.softmax.0.backward",
                      ranks.Leaf(0, "gi.npy", {1, 2, 3, 5}, {2, 2}),
                      ranks.Leaf(0, "go.npy", gradient, {2, 2}));
    return ranks.Check().calls[1].verdict();
  };
  EXPECT_EQ(judged({-0.20998717F, -0.31498075F, 0.20998717F, 0.31498075F}), Verdict::kWithin);
  EXPECT_EQ(judged({-0.20998717F, 0.20998717F, -0.31498075F, 0.31498075F}), Verdict::kBeyond);
}

TEST(OrderOfGradients, OfATransposedMatrix) {
  const auto judged = [](const std::vector<float>& gradient) {
    Ranks ranks(1);
    ranks.Add(0, "Torch.transpose.0.forward", ranks.Leaf(0, "x.npy", {0, 1, 2, 3, 4, 5}, {2, 3}),
              R"("dim0": {"type": "int", "value": 0}, "dim1": {"type": "int", "value": 1})",
              ranks.Leaf(0, "y.npy", {0, 3, 1, 4, 2, 5}, {3, 2}));
    ranks.AddBackward(0, "Torch.transpose.0.backward",
                      ranks.Leaf(0, "gi.npy", {1, 2, 3, 4, 5, 6}, {3, 2}),
                      ranks.Leaf(0, "go.npy", gradient, {2, 3}));
    return ranks.Check().calls[1].verdict();
  };
  EXPECT_EQ(judged({1, 3, 5, 2, 4, 6}), Verdict::kWithin);
  EXPECT_EQ(judged({1, 2, 3, 4, 5, 6}), Verdict::kBeyond);
}

}  // namespace
}  // namespace msprobe::analysis::recheck
