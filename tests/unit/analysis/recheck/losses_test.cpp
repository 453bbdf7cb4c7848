// Losses under autocast, and gradients of losses, of which hooks see those of their steps.
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/tensor/float_bits.h"
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

// The mean loss of 64 rows of logits of a 16-bit type, whose logarithms were rounded to that type
// before they were summed in float32, as autocast has it.
struct Autocast {
  static constexpr size_t kRows = 64, kClasses = 10;
  std::vector<float> logits;
  std::vector<float> targets;
  std::vector<float> losses;

  explicit Autocast(DType narrow) {
    std::mt19937 engine(7);
    std::normal_distribution<double> draw(0, 2);
    for (size_t i = 0; i < kRows * kClasses; ++i) {
      logits.push_back(static_cast<float>(tensor::RoundToDType(narrow, draw(engine))));
    }
    for (size_t row = 0; row < kRows; ++row) {
      double sum = 0;
      for (size_t i = 0; i < kClasses; ++i) {
        sum += std::exp(static_cast<double>(logits[row * kClasses + i]));
      }
      const size_t target = row % kClasses;
      targets.push_back(static_cast<float>(target));
      losses.push_back(static_cast<float>(-tensor::RoundToDType(
          narrow, static_cast<double>(logits[row * kClasses + target]) - std::log(sum))));
    }
  }
  float Mean() const { return std::accumulate(losses.begin(), losses.end(), 0.0F) / kRows; }

  Verdict Judged(DType dtype, const std::string& reduction, const std::vector<float>& captured,
                 const Precision& precision = {}, uint64_t less_exact = 0) const {
    Ranks ranks(1);
    ranks.Add(0, "Functional.cross_entropy.0.forward",
              As(dtype, ranks.Leaf(0, "input.npy", logits, {kRows, kClasses})) + ", " +
                  ranks.Leaf(0, "target.npy", targets),
              R"("reduction": {"type": "str", "value": ")" + reduction + "\"}",
              ranks.Leaf(0, "loss.npy", captured, reduction == "none" ? Shape{kRows} : Shape{}));
    const Answer answer = ranks.Check(precision);
    EXPECT_EQ(answer.calls[0].checked().is_less_exact, less_exact > 0);
    return answer.calls[0].verdict();
  }
};

TEST(CrossEntropy, UnderAutocastItsLogarithmsAreOfTheTypeOfItsInput) {
  for (const DType narrow : {DType::kBFloat16, DType::kFloat16}) {
    const Autocast made(narrow);
    const float mean = made.Mean();
    EXPECT_EQ(made.Judged(narrow, "mean", {mean}, {}, 1), Verdict::kWithin);
    EXPECT_EQ(made.Judged(narrow, "none", made.losses, {}, 1), Verdict::kWithin);
    // Not where the input was float32, and not where sums are said to be in float32.
    EXPECT_EQ(made.Judged(DType::kFloat32, "mean", {mean}), Verdict::kBeyond);
    EXPECT_EQ(made.Judged(narrow, "mean", {mean}, {.accumulation = Accumulation::kFloat32}),
              Verdict::kBeyond);
    // A wrong scale, a row that is missing, a wrong element.
    EXPECT_EQ(made.Judged(narrow, "mean", {mean * 1.02F}), Verdict::kBeyond);
    EXPECT_EQ(made.Judged(narrow, "mean", {mean - made.losses[5] / Autocast::kRows}),
              Verdict::kBeyond);
    std::vector<float> wrong = made.losses;
    wrong[5] *= 1.02F;
    EXPECT_EQ(made.Judged(narrow, "none", wrong), Verdict::kBeyond);
  }
}

}  // namespace
}  // namespace msprobe::analysis::recheck
