// Gradients of losses, of which hooks see those of their steps.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/analysis/recheck/made_dump.h"

namespace msprobe::analysis::recheck {
namespace {

// The verdict of the backward call of a loss that is a sum, from a gradient of 1.
Verdict JudgedGradient(const std::string& name, const std::vector<float>& input, const Shape& shape,
                       const std::vector<float>& target, const Shape& target_shape, float loss,
                       const std::vector<float>& outgoing) {
  Ranks ranks(1);
  ranks.Add(0, "Functional." + name + ".0.forward",
            ranks.Leaf(0, "input.npy", input, shape) + ", " +
                ranks.Leaf(0, "target.npy", target, target_shape),
            R"("reduction": {"type": "str", "value": "sum"})",
            ranks.Leaf(0, "loss.npy", {loss}, {}));
  ranks.AddBackward(0, "Functional." + name + ".0.backward", ranks.Leaf(0, "gi.npy", {1}, {}),
                    ranks.Leaf(0, "go.npy", outgoing, shape));
  const Answer answer = ranks.Check();
  EXPECT_EQ(answer.calls[0].verdict(), Verdict::kWithin) << answer.calls[0].checked().reason;
  return answer.calls[1].verdict();
}

TEST(KlDiv, GradientsAreThoseOfItsArgumentsAndOfItsSteps) {
  const std::vector<float> input = {-1, -0.5F, -2};
  const std::vector<float> target = {0.25F, 0.5F, 0.125F};
  const auto made = [&](float (*of)(float at, float t)) {
    std::vector<float> numbers;
    for (size_t i = 0; i < input.size(); ++i) {
      numbers.push_back(of(input[i], target[i]));
    }
    return numbers;
  };
  float loss = 0;
  for (const float part : made([](float at, float t) { return t * (std::log(t) - at); })) {
    loss += part;
  }
  const auto judged = [&](float (*of)(float at, float t)) {
    return JudgedGradient("kl_div", input, {3}, target, {3}, loss, made(of));
  };
  // Of the input.
  EXPECT_EQ(judged([](float, float t) { return -t; }), Verdict::kWithin);
  EXPECT_EQ(judged([](float, float t) { return t * 0.999F; }), Verdict::kBeyond);
  // Of the target, by each of its two steps and by both.
  EXPECT_EQ(judged([](float at, float) { return -at; }), Verdict::kWithin);
  EXPECT_EQ(judged([](float, float t) { return std::log(t) + 1; }), Verdict::kWithin);
  EXPECT_EQ(judged([](float at, float t) { return std::log(t) + 1 - at; }), Verdict::kWithin);
  EXPECT_EQ(judged([](float at, float t) { return std::log(t) - at; }), Verdict::kBeyond);
}

// Of three points of two equal classes.
TEST(CrossEntropy, OfImagesHandsTheGradientOfTheLogarithmsOnInTheLayoutOfItsInput) {
  const auto judged = [](const std::vector<float>& outgoing) {
    return JudgedGradient("cross_entropy", std::vector<float>(6), {1, 2, 3}, {0, 0, 1}, {1, 3},
                          3 * std::log(2.0F), outgoing);
  };
  EXPECT_EQ(judged({-1, -1, 0, 0, 0, -1}), Verdict::kWithin);
  EXPECT_EQ(judged({-0.5F, -0.5F, 0.5F, 0.5F, 0.5F, -0.5F}), Verdict::kWithin);
  EXPECT_EQ(judged({-1, -1, 0, 0, 0, -0.9F}), Verdict::kBeyond);
}

}  // namespace
}  // namespace msprobe::analysis::recheck
