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
  SideRow npu = Row(0.99);
  npu.stats[kMax].number += 5e-5;
  EXPECT_EQ(
      JudgeUpdate(Before(1, "[16, 16]", 1e-6), {}, kKeys, Cancellation::kNever, npu, Row(0.99))
          .judgement,
      UpdateJudgement::kExplained);
  EXPECT_EQ(Judge(Before(1, "[16, 16]", 1e-6), 0.99 + 5e-4, 0.99), UpdateJudgement::kOptimizer);
}

TEST(JudgeUpdate, TheSignByWhichAdamMovesABiasWhoseGradientCancelsIsChance) {
  StepRecord before = Before(1, "[16]", 0.7);
  before.gradients[kKey].cancelled = true;
  EXPECT_EQ(Judge(before, 1.001, 0.999, "[16]"), UpdateJudgement::kExplained);
  EXPECT_EQ(Judge(Before(1, "[16, 16]", 1e-6), 1.001, 0.999), UpdateJudgement::kOptimizer)
      << "where the gradient agrees, chance has no part";
}

TEST(JudgeUpdate, AnUpdateIsLostWhereOneSideHasTheValueOfTheStepBefore) {
  // Elements without a gradient hold the extremes: Norm alone tells that the rest moved.
  const StepRecord before = Before(1, "[16, 16]", 1e-6);
  SideRow moved = Row(1);
  moved.stats[kNorm].number *= 1 + 1e-5;
  const auto judge = [&](const StepRecord& record, const SideRow& npu, const SideRow& bench) {
    return JudgeUpdate(record, {}, kKeys, Cancellation::kNever, npu, bench).judgement;
  };
  EXPECT_EQ(judge(before, Row(1), moved), UpdateJudgement::kOptimizer);
  EXPECT_EQ(judge(before, moved, Row(1)), UpdateJudgement::kOptimizer);
  SideRow also_moved = moved;
  also_moved.stats[kMean].number = 1e-9;
  EXPECT_EQ(judge(before, also_moved, moved), UpdateJudgement::kExplained);
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

// A bias whose gradient cancels: all that an update by chance may do is what updates of this run
// do.
TEST(JudgeUpdate, WhatOneSideAloneMovedIsNoMeasureOfChance) {
  StepRecord before = Before(1, "[16]", 0.7);
  before.gradients[kKey].cancelled = true;
  UpdateRule rule;
  rule.Add(Before(1, "[16, 16]", 1e-6), kKeys, Cancellation::kNever, Row(0.999), Row(0.999));
  EXPECT_NEAR(rule.SharedMovement(), 0.001, 1e-12);
  EXPECT_EQ(Judge(before, 1.001, 0.999, "[16]", rule), UpdateJudgement::kExplained);
  EXPECT_EQ(Judge(before, 1.0005, 1, "[16]", rule), UpdateJudgement::kExplained);
  EXPECT_EQ(Judge(before, 1.2, 0.999, "[16]", rule), UpdateJudgement::kOptimizer)
      << "set to another value";
  EXPECT_EQ(Judge(before, 0.999, 1.05, "[16]", rule), UpdateJudgement::kOptimizer);
}

TEST(JudgeUpdate, BitEqualGradientsLeaveNothingToChance) {
  const auto judge = [](bool shows_bits, bool repeats, bool identical, double npu) {
    StepRecord before = Before(1, "[16]", 0.7);
    before.shows_bits = shows_bits;
    before.repeats_layers = repeats;
    before.gradients[kKey].identical = identical;
    before.gradients[kKey].error = identical ? 0 : 0.7;
    before.gradients[kKey].cancelled = true;
    return Judge(before, npu, 0.999, "[16]");
  };
  EXPECT_EQ(judge(true, false, true, 0.9992), UpdateJudgement::kOptimizer);
  EXPECT_EQ(judge(true, false, true, 1.001), UpdateJudgement::kOptimizer);
  EXPECT_EQ(judge(true, false, true, 0.999 + 1e-6), UpdateJudgement::kExplained) << "rounding";
  EXPECT_EQ(judge(false, false, true, 0.9992), UpdateJudgement::kExplained)
      << "statistics hide single elements";
  EXPECT_EQ(judge(true, true, true, 0.9992), UpdateJudgement::kExplained)
      << "gradients of several passes add up, and only one is known";
  EXPECT_EQ(judge(true, false, false, 0.9992), UpdateJudgement::kExplained);
}

TEST(JudgeUpdate, ChanceDoesNotMoveBothExtremesOfOneParameter) {
  const auto judge = [](double npu_max, double npu_min) {
    SideRow npu = Row(0.999);
    npu.stats[kMax].number = npu_max;
    npu.stats[kMin].number = npu_min;
    return JudgeUpdate(Before(1, "[16, 16]", 1e-7), {}, kKeys, Cancellation::kNever, npu,
                       Row(0.999))
        .judgement;
  };
  // 0.002 of the movement: less than what one element of 256 may add.
  EXPECT_EQ(judge(0.999002, -0.999002), UpdateJudgement::kOptimizer);
  EXPECT_EQ(judge(0.999002, -0.999), UpdateJudgement::kExplained);
  EXPECT_EQ(judge(0.999, -0.998998), UpdateJudgement::kExplained);
}

TEST(JudgeUpdate, OfSixteenBitsAnyElementOfAShortVectorMayMoveByChance) {
  const auto judge = [](std::string_view dtype) {
    SideRow npu = Row(1.001, "[16]");
    SideRow bench = Row(0.999, "[16]");
    npu.dtype = dtype;
    return JudgeUpdate(Before(1, "[16]", 8e-4), {}, kKeys, Cancellation::kNever, npu, bench)
        .judgement;
  };
  EXPECT_EQ(judge("torch.bfloat16"), UpdateJudgement::kExplained)
      << "statistics agree better than elements";
  EXPECT_EQ(judge("torch.float32"), UpdateJudgement::kOptimizer);
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

// Adam moves four parameters by 0.001 each; of `apart` of them the largest elements, or those at
// both ends, move a hundredth less on the tested side, as a larger epsilon makes it.
UpdateRule RuleOfAdam(int apart, double gradient_error, bool at_both_ends = false) {
  UpdateRule rule;
  for (int i = 0; i < 4; ++i) {
    SideRow npu = Row(0.999);
    npu.stats[kMax].number += i < apart ? 1e-5 : 0;
    npu.stats[kMin].number -= i < apart && at_both_ends ? 1e-5 : 0;
    rule.Add(Before(1, "[16, 16]", gradient_error), kKeys, Cancellation::kNever, npu, Row(0.999));
  }
  return rule;
}

TEST(UpdateRule, AnotherSettingShowsInTheExtremesOfManyParametersWhoseGradientsAgree) {
  EXPECT_TRUE(RuleOfAdam(4, 1e-7).Differs());
  EXPECT_TRUE(RuleOfAdam(3, 1e-6).Differs());
  EXPECT_FALSE(RuleOfAdam(2, 1e-7).Differs()) << "single elements move by chance";
  EXPECT_FALSE(RuleOfAdam(4, 1e-3).Differs()) << "gradients that differ explain it";
  EXPECT_TRUE(RuleOfAdam(2, 1e-7, true).Differs()) << "but not at both ends";
  EXPECT_FALSE(RuleOfAdam(1, 1e-7, true).Differs());
  EXPECT_FALSE(RuleOfAdam(2, 1e-3, true).Differs());
  EXPECT_FALSE(RuleOfAdam(0, 1e-7).Differs());
  EXPECT_FALSE(UpdateRule().Differs());
}

TEST(JudgeUpdate, AnotherSettingOfTheOptimizerIsFoundBelowWhatChanceMayMove) {
  const auto judge = [](const UpdateRule& rule, Cancellation cancellation) {
    SideRow npu = Row(0.99901, "[16]");
    npu.stats[kMin].number = -0.999;  // chance may move one element
    return JudgeUpdate(Before(1, "[16]", 1e-7), rule, kKeys, cancellation, npu, Row(0.999, "[16]"))
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

TEST(UpdateRule, OfSidesOfTwoDtypesTheFinerOneTellsHowFarAParameterMoved) {
  const auto follows = [](bool npu_is_narrow) {
    UpdateRule rule;
    for (const double gradient : {1e-4, 1e-3, 1e-2, 1e-1}) {
      StepRecord before = Before(1);
      before.gradients[kKey].scale = gradient;
      SideRow wide = Row(1 - 0.1 * gradient);
      SideRow narrow = Row(gradient > 0.05 ? 0.9921875 : 1);
      narrow.dtype = "torch.bfloat16";
      rule.Add(before, kKeys, Cancellation::kNever, npu_is_narrow ? narrow : wide,
               npu_is_narrow ? wide : narrow);
    }
    return rule.FollowsGradients();
  };
  EXPECT_TRUE(follows(true));
  EXPECT_TRUE(follows(false));
}

TEST(JudgeUpdate, AnUpdateAsLargeAsItsGradientIsAsFarApart) {
  const UpdateRule sgd = RuleOf([](double gradient) { return 0.1 * gradient; });
  const StepRecord before = Before(1, "[16, 16]", 0.01);
  EXPECT_EQ(Judge(before, 0.999 + 5e-5, 0.999, "[16, 16]", sgd), UpdateJudgement::kExplained);
  EXPECT_EQ(Judge(before, 0.999 + 5e-4, 0.999, "[16, 16]", sgd), UpdateJudgement::kOptimizer);
  EXPECT_EQ(Judge(before, 0.999 + 5e-4, 0.999), UpdateJudgement::kExplained)
      << "Adam divides small gradients by their own size";
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
