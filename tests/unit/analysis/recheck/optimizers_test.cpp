// Fused steps of an optimizer, whose results the next step begins with, and operations on lists.
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/recheck/made_dump.h"

namespace msprobe::analysis::recheck {
namespace {

using ::testing::HasSubstr;

struct State {
  std::vector<float> parameter = {0.3F, -0.7F, 1.25F};
  std::vector<float> mean = {0, 0.01F, -0.2F};
  std::vector<float> square = {0, 0.003F, 0.04F};
  float step = 3;
};
const std::vector<float> kGradient = {0, 0.5F, -0.125F};

std::string Number(const char* name, const char* type, const char* value) {
  return fmt::format(R"("{}": {{"type": "{}", "value": {}}})", name, type, value);
}

// One step of AdamW in float32, in the order of its documentation.
State AfterStep(State state) {
  for (size_t i = 0; i < kGradient.size(); ++i) {
    const float gradient = kGradient[i];
    state.parameter[i] -= 0.01F * 0.1F * state.parameter[i];
    state.mean[i] = 0.9F * state.mean[i] + 0.1F * gradient;
    state.square[i] = 0.999F * state.square[i] + 0.001F * gradient * gradient;
    const float divisor =
        std::sqrt(state.square[i]) / std::sqrt(1 - std::pow(0.999F, state.step)) + 1e-8F;
    state.parameter[i] -= 0.01F / (1 - std::pow(0.9F, state.step)) * state.mean[i] / divisor;
  }
  return state;
}

void AddStep(Ranks& steps, size_t step, const State& state, const std::string& more = "") {
  const auto leaf = [&](const char* file, const std::vector<float>& values) {
    return "[" + steps.Leaf(step, file, values) + "]";
  };
  steps.Add(step, "Torch._fused_adamw_.0.forward",
            leaf("p.npy", state.parameter) + ", " + leaf("g.npy", kGradient) + ", " +
                leaf("m.npy", state.mean) + ", " + leaf("v.npy", state.square) + ", [], " + "[" +
                steps.Leaf(step, "t.npy", {state.step}, {}) + "]",
            Number("lr", "float", "0.01") + ", " + Number("beta1", "float", "0.9") + ", " +
                Number("beta2", "float", "0.999") + ", " + Number("eps", "float", "1e-08") + ", " +
                Number("weight_decay", "float", "0.1") + ", " + Number("amsgrad", "bool", "false") +
                ", " + Number("maximize", "bool", "false") + more,
            "null");
}

// Two steps; `change` is what happens between them.
template <typename Change>
Answer TwoSteps(const Change& change) {
  Ranks steps(2, true);
  const State before;
  AddStep(steps, 0, before);
  State after = AfterStep(before);
  after.step += 1;
  change(after);
  AddStep(steps, 1, after);
  return steps.Check();
}

TEST(FusedSteps, AreCheckedByWhatTheNextStepBeginsWith) {
  const Answer answer = TwoSteps([](State&) {});
  EXPECT_EQ(answer.within, 1U) << answer.calls[0].checked().reason;
  EXPECT_EQ(answer.not_checkable, 1U);
  EXPECT_THAT(answer.calls[1].checked().reason, HasSubstr("next step"));
}

TEST(FusedSteps, AWrongResultIsFoundInEachOfTheirTensors) {
  for (std::vector<float> State::*const member :
       {&State::parameter, &State::mean, &State::square}) {
    const Answer answer = TwoSteps([&](State& after) { (after.*member)[1] *= 1.001F; });
    EXPECT_EQ(answer.beyond, 1U);
  }
  // A gradient of 0 and moments of 0 leave the parameter as it was, but for its decay.
  EXPECT_EQ(TwoSteps([](State& after) { after.parameter[0] += 1e-5F; }).beyond, 1U);
}

TEST(FusedSteps, AreNotJudgedByAStepThatIsNotTheNext) {
  const Answer answer = TwoSteps([](State& after) { after.step += 1; });
  EXPECT_EQ(answer.not_checkable, 2U);
  EXPECT_THAT(answer.calls[0].checked().reason, HasSubstr("next step"));
  Ranks skipped(1, true);
  AddStep(skipped, 0, State(), ", \"found_inf\": " + skipped.Leaf(0, "inf.npy", {1}, {}));
  EXPECT_THAT(skipped.Check().calls[0].checked().reason, HasSubstr("skipped"));
}

TEST(ListsOfTensors, AreRecomputedOneByOne) {
  Ranks ranks(1);
  const std::string a =
      "[" + ranks.Leaf(0, "a.npy", {3, 4}) + ", " + ranks.Leaf(0, "b.npy", {1, 2, 2}) + "]";
  const auto results = [&](std::vector<float> first, std::vector<float> second) {
    static int number = 0;
    const std::string file = std::to_string(number++);
    return ranks.Leaf(0, file + "x.npy", first) + ", " + ranks.Leaf(0, file + "y.npy", second);
  };
  ranks.Add(0, "Torch._foreach_norm.0.forward", a, "",
            ranks.Leaf(0, "n.npy", {5}, {}) + ", " + ranks.Leaf(0, "o.npy", {3}, {}));
  ranks.Add(0, "Torch._foreach_norm.1.forward", a + ", " + Integer(1), "",
            ranks.Leaf(0, "k.npy", {7}, {}) + ", " + ranks.Leaf(0, "l.npy", {5.01F}, {}));
  ranks.Add(0, "Aten._foreach_mul.0.forward", a + ", " + Integer(2), "",
            results({6, 8}, {2, 4, 4}));
  ranks.Add(0, "Aten._foreach_add.0.forward", a + ", " + a,
            R"("alpha": {"type": "float", "value": 0.5})", results({4.5F, 6}, {1.5F, 3, 3}));
  ranks.Add(0, "Aten._foreach_addcdiv.0.forward",
            a + ", " + a + ", " + a + ", [" + Integer(2) + ", " + Integer(-1) + "]", "",
            results({5, 6}, {0, 1, 1}));
  ranks.Add(0, "Aten._foreach_mul_.1.forward", a + ", " + Integer(2), "", "null");
  // One of these numbers for each tensor, which none of its elements tells.
  ranks.Add(0, "Aten._foreach_addcmul.0.forward",
            a + ", " + a + ", " + a + ", " + ranks.Leaf(0, "factors.npy", {2, 1}), "",
            results({21, 36}, {2, 6, 6}));
  ranks.Add(0, "Aten._foreach_mul.1.forward",
            a + R"(, [{"type": "str", "value": "2"}, )" + Integer(2) + "]", "",
            results({0, 0}, {2, 4, 4}));
  const Answer answer = ranks.Check();
  EXPECT_EQ(answer.within, 4U);
  ASSERT_EQ(answer.beyond, 1U);
  EXPECT_EQ(answer.calls[1].verdict(), Verdict::kBeyond);
  EXPECT_THAT(answer.calls[5].checked().reason, HasSubstr("as they were before"));
  EXPECT_THAT(answer.calls[6].checked().reason, HasSubstr("one number for all"));
  EXPECT_THAT(answer.calls[7].checked().reason, HasSubstr("do not fit"));
}

}  // namespace
}  // namespace msprobe::analysis::recheck
