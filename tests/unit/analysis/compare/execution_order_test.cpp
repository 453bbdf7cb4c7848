#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/compare/call_alignment.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::compare {
namespace {

using ::testing::ElementsAre;

Side SideOf(const std::vector<std::string>& names) {
  Side side;
  for (const std::string& name : names) {
    side.entries.push_back({side.Keep(name), 0, 0});
  }
  return side;
}

std::vector<std::string> Ordered(const Side& side) {
  std::vector<std::string> names;
  for (const uint32_t entry : PlanExecution(side).order) {
    names.emplace_back(side.entries[entry].name);
  }
  return names;
}

TEST(PlanExecution, MovesParameterGradientsBehindTheirModulesLastBackward) {
  const Side side = SideOf({"Module.a.Linear.forward.0", "Module.a.Linear.parameters_grad",
                            "Module.b.Linear.forward.0", "Module.b.Linear.parameters_grad",
                            "Module.b.Linear.backward.0", "Module.a.Linear.backward.0",
                            "Module.a.Linear.backward.1", "Tensor.add_.0.forward"});
  EXPECT_THAT(Ordered(side),
              ElementsAre("Module.a.Linear.forward.0", "Module.b.Linear.forward.0",
                          "Module.b.Linear.backward.0", "Module.b.Linear.parameters_grad",
                          "Module.a.Linear.backward.0", "Module.a.Linear.backward.1",
                          "Module.a.Linear.parameters_grad", "Tensor.add_.0.forward"));
}

TEST(PlanExecution, WhatTheOptimizerIsGivenComesBehindAllBackwardCallsInTheirOrder) {
  const Side side = SideOf({"Module.a.Linear.forward.0", "Module.b.Linear.forward.0",
                            "Module.b.Linear.backward.0", "Module.a.Linear.backward.0",
                            "Tensor.add_.0.forward", "Module.a.Linear.parameters_grad.reduced",
                            "Module.b.Linear.parameters_grad.reduced"});
  EXPECT_THAT(Ordered(side),
              ElementsAre("Module.a.Linear.forward.0", "Module.b.Linear.forward.0",
                          "Module.b.Linear.backward.0", "Module.a.Linear.backward.0",
                          "Module.b.Linear.parameters_grad.reduced",
                          "Module.a.Linear.parameters_grad.reduced", "Tensor.add_.0.forward"));
}

TEST(PlanExecution, WithoutABackwardOfTheModuleTheLastOneOfAllIsTheirPlace) {
  const Side side = SideOf({"Module.a.Linear.forward.0", "Module.a.Linear.parameters_grad",
                            "Functional.linear.0.backward", "Tensor.add_.0.forward"});
  EXPECT_THAT(Ordered(side),
              ElementsAre("Module.a.Linear.forward.0", "Functional.linear.0.backward",
                          "Module.a.Linear.parameters_grad", "Tensor.add_.0.forward"));
}

TEST(PlanExecution, WithoutAnyBackwardTheyComeLastInTheirOrder) {
  const Side side = SideOf({"Module.a.Linear.parameters_grad", "Module.b.Linear.parameters_grad",
                            "Torch.sin.0.forward"});
  EXPECT_THAT(Ordered(side), ElementsAre("Torch.sin.0.forward", "Module.a.Linear.parameters_grad",
                                         "Module.b.Linear.parameters_grad"));
}

TEST(PlanExecution, PairsABackwardWithItsForward) {
  const Side side = SideOf({"Functional.linear.0.forward", "Module.a.Linear.forward.1",
                            "Functional.linear.0.backward", "Module.a.Linear.backward.1",
                            "Functional.gelu.0.backward"});
  const ExecutionPlan plan = PlanExecution(side);
  EXPECT_THAT(plan.partner, ElementsAre(kNoEntry, kNoEntry, 0, 1, kNoEntry));
  EXPECT_EQ(plan.module_count, 1U);
  EXPECT_EQ(plan.module_of[1], plan.module_of[3]);
  EXPECT_EQ(plan.module_of[0], kNoEntry);
}

TEST(PlanExecution, NamesOfNoKnownFormKeepTheirPlace) {
  const Side side =
      SideOf({"", "parameters_grad", "x", "forward", ".backward.", "x.parameters_grad"});
  EXPECT_EQ(PlanExecution(side).order.size(), side.entries.size());
}

TEST(CallTraits, WeightsAreKnownByTheirPlaceAmongTheArguments) {
  const dump::EntryName linear = dump::ParseEntryName("Functional.linear.2.forward");
  EXPECT_FALSE(IsLayerStateArgument(linear, "input.0"));
  EXPECT_TRUE(IsLayerStateArgument(linear, "input.1"));
  EXPECT_TRUE(IsLayerStateArgument(linear, "input.weight"));
  EXPECT_TRUE(IsLayerStateArgument(linear, "kwargs.bias"));
  EXPECT_FALSE(IsLayerStateArgument(linear, "input.1.0"));
  EXPECT_FALSE(IsLayerStateArgument(linear, "output.1"));
  EXPECT_FALSE(IsLayerStateArgument(linear, ""));
  EXPECT_FALSE(
      IsLayerStateArgument(dump::ParseEntryName("Functional.linear.2.backward"), "input.1"));
  EXPECT_FALSE(IsLayerStateArgument(dump::ParseEntryName("Torch.matmul.0.forward"), "input.1"));
}

TEST(CallTraits, ReceiveBuffersAreWhatACollectiveFills) {
  const dump::EntryName gather = dump::ParseEntryName("Distributed.all_gather.0.forward");
  EXPECT_TRUE(IsReceiveBuffer(gather, "input.0.1"));
  EXPECT_FALSE(IsReceiveBuffer(gather, "input.1"));
  EXPECT_FALSE(
      IsReceiveBuffer(dump::ParseEntryName("Distributed.all_reduce.0.forward"), "input.0"));
  EXPECT_TRUE(IsReceiveBuffer(dump::ParseEntryName("Distributed.gather.0.forward"), "input.1.0"));
  EXPECT_FALSE(IsReceiveBuffer(dump::ParseEntryName("Torch.scatter.0.forward"), "input.0"));
}

TEST(CallTraits, ArgumentsAreNamedBelowTheirCall) {
  EXPECT_EQ(dump::ArgumentOf("Torch.sin.0.forward", "Torch.sin.0.forward.input.0"), "input.0");
  EXPECT_EQ(dump::ArgumentOf("Torch.sin.0.forward", "renamed"), "");
  EXPECT_EQ(dump::ArgumentOf("Torch.sin.0.forward", "Torch.sin.0.forward"), "");
}

}  // namespace
}  // namespace msprobe::analysis::compare
