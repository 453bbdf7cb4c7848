// Captured gradients whose elements stand in another order than they should: no step of the call
// has such a gradient, though loops of ours move dims and what comes in has as many elements. And
// the halves of a call, which are judged together.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/recheck/step_ranks.h"
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

// Autograd multiplies by the transposed weight, and its hooks see that one's gradient.
TEST(OrderOfGradients, OfTheWeightOfALinear) {
  const auto judged = [](const std::vector<float>& gradient, const Shape& shape) {
    const int64_t rows = static_cast<int64_t>(gradient.size()) / 2;  // the weight is rows x 2
    Ranks ranks(1);
    std::vector<float> weight(gradient.size(), 1);
    std::vector<float> incoming(static_cast<size_t>(rows));
    for (size_t i = 0; i < incoming.size(); ++i) {
      incoming[i] = static_cast<float>(i + 1);
    }
    ranks.Add(
        0, "Functional.linear.0.forward",
        ranks.Leaf(0, "x.npy", {3, 5}, {1, 2}) + ", " + ranks.Leaf(0, "w.npy", weight, {rows, 2}),
        "", ranks.Leaf(0, "y.npy", std::vector<float>(static_cast<size_t>(rows), 8), {1, rows}));
    ranks.AddBackward(0, "Functional.linear.0.backward",
                      ranks.Leaf(0, "gi.npy", incoming, {1, rows}),
                      ranks.Leaf(0, "go.npy", gradient, shape));
    return ranks.Check().calls[1].verdict();
  };
  EXPECT_EQ(judged({3, 5, 6, 10, 9, 15}, {3, 2}), Verdict::kWithin);
  EXPECT_EQ(judged({3, 6, 9, 5, 10, 15}, {2, 3}), Verdict::kWithin);
  EXPECT_EQ(judged({3, 5, 6, 10, 9, 15}, {2, 3}), Verdict::kBeyond);
  EXPECT_EQ(judged({3, 5, 6, 10}, {2, 2}), Verdict::kWithin);
  EXPECT_EQ(judged({3, 6, 5, 10}, {2, 2}), Verdict::kWithin);
  EXPECT_EQ(judged({5, 3, 10, 6}, {2, 2}), Verdict::kBeyond);
}

// A dump whose calls are judged by the halves is judged as it is call by call.
TEST(HalvesOfACall, AreJudgedTogetherAsTheyAreAlone) {
  base::ThreadPool pool(1);
  for (const std::string side : {"npu", "bench"}) {
    Options options;
    options.dump = std::string(MSPROBE_TEST_DATA) + "/recheck/" + side;
    options.threads = 1;
    options.quiet = true;
    const Result<Answer> answer = recheck::Run(options);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    const Result<DumpEntries> entries =
        DumpEntries::Open(options.dump / "step0" / "rank" / "dump.json");
    ASSERT_TRUE(entries.ok()) << entries.status().message();
    size_t backward = 0;
    for (const CheckedCall& call : answer->calls) {
      SCOPED_TRACE(call.name);
      const CallVerdict& together = *call.sides[0];
      const Result<CallVerdict> alone = RecheckCall(*entries, call.name, {}, pool);
      ASSERT_TRUE(alone.ok()) << alone.status().message();
      EXPECT_EQ(together.verdict, alone->verdict);
      EXPECT_EQ(together.ratio, alone->ratio);
      EXPECT_EQ(together.reason, alone->reason);
      EXPECT_EQ(together.operation, alone->operation);
      EXPECT_EQ(together.has_products, alone->has_products);
      ASSERT_EQ(together.tensors.size(), alone->tensors.size());
      for (size_t i = 0; i < together.tensors.size(); ++i) {
        EXPECT_EQ(together.tensors[i].tensor, alone->tensors[i].tensor);
        EXPECT_EQ(together.tensors[i].exact, alone->tensors[i].exact);
        EXPECT_EQ(together.tensors[i].bound, alone->tensors[i].bound);
      }
      backward += call.name.find("backward") != std::string::npos ? 1 : 0;
    }
    EXPECT_GT(backward, 0U);
  }
}

// A dropout hands on gradients of what it kept; its results are other ones than those it passes
// gradients through.
TEST(HalvesOfACall, AreRecomputedApartWhereTheyAreNotTheSame) {
  Ranks ranks(1);
  ranks.Add(0, "Functional.dropout.0.forward", ranks.Leaf(0, "x.npy", {1, 2, 3, 4}),
            R"("p": {"type": "float", "value": 0.5})", ranks.Leaf(0, "y.npy", {2, 0, 6, 0}));
  ranks.AddBackward(0, "Functional.dropout.0.backward", ranks.Leaf(0, "gi.npy", {1, 1, 1, 1}),
                    ranks.Leaf(0, "go.npy", {2, 0, 2, 0}));
  const Answer answer = ranks.Check();
  ASSERT_EQ(answer.calls.size(), 2U);
  EXPECT_EQ(answer.calls[0].verdict(), Verdict::kWithin);
  EXPECT_EQ(answer.calls[0].sides[0]->tensors[0].exact, 2);
  EXPECT_EQ(answer.calls[1].verdict(), Verdict::kWithin);
}

}  // namespace
}  // namespace msprobe::analysis::recheck
