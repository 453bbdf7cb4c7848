#include "src/analysis/compare/step_record.h"

#include <array>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace msprobe::analysis::compare {
namespace {

StatValue RecordNumber(double value) {
  StatValue stat;
  stat.kind = StatKind::kNumber;
  stat.number = value;
  return stat;
}

// Elements of `value` and -`value` in equal numbers.
SideRow Row(double value, std::string_view shape = "[16, 16]") {
  SideRow row;
  row.dtype = "torch.float32";
  row.shape = shape;
  row.is_tensor = true;
  row.state = dump::RowState::kParameters;
  const double root = shape == "[16]" ? 4 : 16;
  row.stats = {RecordNumber(value), RecordNumber(-value), RecordNumber(0),
               RecordNumber(value * root)};
  return row;
}

std::array<double, kStatCount> Stats(const SideRow& row) {
  std::array<double, kStatCount> numbers{};
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    numbers[stat] = row.stats[stat].number;
  }
  return numbers;
}

constexpr const char* kKey = "Module.fc.Linear|weight";
const UpdateKeys kKeys{kKey, kKey};

// A step after which the parameter was `value` on both sides.
StepRecord Before(double value, std::string_view shape = "[16, 16]", double gradient_error = 0) {
  StepRecord record;
  record.step = 0;
  record.identical = gradient_error == 0;
  record.agrees = true;
  StepRecord::Parameter& parameter = record.parameters[kKey];
  parameter.npu = parameter.bench = Stats(Row(value, shape));
  parameter.identical = parameter.agrees = true;
  StepRecord::Gradient& gradient = record.gradients[kKey];
  gradient.identical = gradient_error == 0;
  gradient.error = gradient_error;
  gradient.scale = 1e-3;
  return record;
}

UpdateJudgement Judge(const StepRecord& before, double npu, double bench,
                      std::string_view shape = "[16, 16]", const UpdateRule& rule = {}) {
  // The vector is the bias of a fused projection, of which a part may cancel.
  const Cancellation cancellation = shape == "[16]" ? Cancellation::kInPart : Cancellation::kNever;
  return JudgeUpdate(before, rule, kKeys, cancellation, Row(npu, shape), Row(bench, shape))
      .judgement;
}

TEST(UpdateKeysOf, AParameterOfAModuleAndItsGradientGoByOneName) {
  SideRow row = Row(1);
  const UpdateKeys parameter = UpdateKeysOf("Module.fc.Linear.forward.0", "parameters.weight", row);
  row.state = dump::RowState::kParametersGrad;
  EXPECT_EQ(parameter.parameter, kKey);
  EXPECT_EQ(UpdateKeysOf("Module.fc.Linear.parameters_grad", "weight", row).gradient,
            parameter.gradient);
  EXPECT_EQ(UpdateKeysOf("Module.fc.Linear.parameters_grad.0", "weight", row).gradient,
            parameter.gradient);
}

TEST(UpdateKeysOf, OfAFunctionalCallAGradientIsKnownByItsSize) {
  SideRow row = Row(1);
  row.state = dump::RowState::kInput;
  const UpdateKeys forward = UpdateKeysOf("Functional.linear.0.forward", "input.1", row);
  EXPECT_EQ(forward.parameter, "Functional.linear.0|1");
  row.state = dump::RowState::kOutput;
  EXPECT_EQ(UpdateKeysOf("Functional.linear.0.backward", "output.0", row).gradient,
            forward.gradient);
}

TEST(JudgeUpdate, AnotherUpdateAfterAStepThatWasEqualIsTheOptimizers) {
  // The learning rate times 1.5: one side moves by 0.010, the other by 0.015.
  EXPECT_EQ(Judge(Before(1), 0.985, 0.990), UpdateJudgement::kOptimizer);
}

TEST(JudgeUpdate, AnotherLearningRateIsFoundBehindNoiseOfGradientsToo) {
  EXPECT_EQ(Judge(Before(1, "[16, 16]", 1e-6), 0.985, 0.990), UpdateJudgement::kOptimizer);
}

TEST(JudgeUpdate, NoiseOfAGradientExplainsItsShareOfTheMovement) {
  // Gradients 1e-6 apart and a movement of 0.01: what one of 256 elements may add by chance, twice
  // a 256th of it, is more than the noise of the gradient.
  EXPECT_EQ(Judge(Before(1, "[16, 16]", 1e-6), 0.99 + 5e-5, 0.99), UpdateJudgement::kExplained);
  EXPECT_EQ(Judge(Before(1, "[16, 16]", 1e-6), 0.99 + 5e-4, 0.99), UpdateJudgement::kOptimizer);
}

TEST(JudgeUpdate, TheSignByWhichAdamMovesABiasWhoseGradientCancelsIsChance) {
  StepRecord before = Before(1, "[16]", 0.7);
  before.gradients[kKey].cancelled = true;
  EXPECT_EQ(Judge(before, 1.001, 0.999, "[16]"), UpdateJudgement::kExplained);
  EXPECT_EQ(Judge(Before(1, "[16, 16]", 1e-6), 1.001, 0.999), UpdateJudgement::kOptimizer)
      << "where the gradient agrees, chance has no part";
}

TEST(JudgeUpdate, BehindAStepThatDivergedADifferingParameterIsAnEcho) {
  StepRecord before = Before(1);
  before.has_origin = true;
  EXPECT_EQ(Judge(before, 2, 1), UpdateJudgement::kEcho);
}

TEST(JudgeUpdate, OfAParameterThatTheStepBeforeDidNotShowOnlyAnEqualStepSaysSomething) {
  StepRecord before;
  EXPECT_EQ(Judge(before, 2, 1), UpdateJudgement::kUnknown);
  before.identical = true;
  EXPECT_EQ(Judge(before, 2, 1), UpdateJudgement::kOptimizer);
}

// Four parameters whose gradients span a factor of 1000.
UpdateRule RuleOf(double (*movement)(double gradient)) {
  UpdateRule rule;
  for (const double gradient : {1e-3, 1e-2, 1e-1, 1.0}) {
    StepRecord before = Before(1);
    before.gradients[kKey].scale = gradient;
    rule.Add(before, kKeys, Cancellation::kNever, Row(1 - movement(gradient)),
             Row(1 - movement(gradient)));
  }
  return rule;
}

// Adam moves four parameters by 0.001 each; of `apart` of them the tested side moves a hundredth
// less, as a larger epsilon makes it.
UpdateRule RuleOfAdam(int apart, double gradient_error) {
  UpdateRule rule;
  for (int i = 0; i < 4; ++i) {
    rule.Add(Before(1, "[16, 16]", gradient_error), kKeys, Cancellation::kNever,
             Row(i < apart ? 0.99901 : 0.999), Row(0.999));
  }
  return rule;
}

TEST(UpdateRule, AnotherSettingShowsInTheExtremesOfManyParametersWhoseGradientsAgree) {
  EXPECT_TRUE(RuleOfAdam(4, 1e-7).Differs());
  EXPECT_TRUE(RuleOfAdam(3, 1e-6).Differs());
  EXPECT_FALSE(RuleOfAdam(2, 1e-7).Differs()) << "single elements move by chance";
  EXPECT_FALSE(RuleOfAdam(4, 1e-3).Differs()) << "gradients that differ explain it";
  EXPECT_FALSE(RuleOfAdam(0, 1e-7).Differs());
  EXPECT_FALSE(UpdateRule().Differs());
}

TEST(JudgeUpdate, AnotherSettingOfTheOptimizerIsFoundBelowWhatChanceMayMove) {
  const auto judge = [](const UpdateRule& rule, Cancellation cancellation) {
    return JudgeUpdate(Before(1, "[16]", 1e-7), rule, kKeys, cancellation, Row(0.99901, "[16]"),
                       Row(0.999, "[16]"))
        .judgement;
  };
  EXPECT_EQ(judge(RuleOfAdam(2, 1e-7), Cancellation::kNever), UpdateJudgement::kExplained);
  EXPECT_EQ(judge(RuleOfAdam(4, 1e-7), Cancellation::kNever), UpdateJudgement::kOptimizer);
  EXPECT_EQ(judge(RuleOfAdam(4, 1e-7), Cancellation::kInPart), UpdateJudgement::kExplained)
      << "what may cancel moves by chance";
}

TEST(UpdateRule, TellsSgdWhoseMovementsFollowGradientsFromAdam) {
  EXPECT_TRUE(RuleOf([](double gradient) { return 0.1 * gradient; }).FollowsGradients());
  EXPECT_FALSE(RuleOf([](double) { return 0.001; }).FollowsGradients());
  EXPECT_FALSE(UpdateRule().FollowsGradients()) << "nothing known";
}

TEST(UpdateRule, UnderSgdNoChanceMovesABias) {
  const StepRecord before = Before(1, "[16]", 1e-6);
  const UpdateRule sgd = RuleOf([](double gradient) { return 0.1 * gradient; });
  const UpdateRule adam = RuleOf([](double) { return 0.001; });
  EXPECT_EQ(Judge(before, 1.001, 0.999, "[16]", sgd), UpdateJudgement::kOptimizer);
  EXPECT_EQ(Judge(before, 1.001, 0.999, "[16]", adam), UpdateJudgement::kExplained);
}

}  // namespace
}  // namespace msprobe::analysis::compare
