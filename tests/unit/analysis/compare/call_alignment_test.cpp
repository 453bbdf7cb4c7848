#include "src/analysis/compare/call_alignment.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Call {
  std::string name;  // "Torch.exp", "Torch.exp.backward"
  double value = 1;
  std::string shape = "[1]";
};

// Numbers calls as a dump does.
Side SideOf(const std::vector<Call>& calls) {
  std::map<std::string, int> numbers;
  std::string entries;
  for (const Call& call : calls) {
    entries += entries.empty() ? "" : ",";
    const std::string leaf = test_support::TensorText(call.value, call.shape);
    if (call.name.ends_with(".backward")) {
      const std::string name = call.name.substr(0, call.name.size() - 9);
      entries += "\"" + name + "." + std::to_string(--numbers[name]) +
                 ".backward\": {\"input\": [" + leaf + "], \"output\": [" + leaf + "]}";
    } else {
      entries += test_support::CallText(
          call.name + "." + std::to_string(numbers[call.name]++) + ".forward", leaf, leaf);
    }
  }
  return test_support::SideFromEntries(entries);
}

CallAlignment Align(const Side& npu, const Side& bench, size_t threads = 2) {
  base::ThreadPool pool(threads);
  return OrderCalls(npu, bench, CallPairs::kByOrder, pool).alignment;
}

// By entry of the NPU side: the name of its partner, "-" without one.
std::vector<std::string> Partners(const Side& npu, const Side& bench) {
  std::vector<std::string> partners;
  for (const uint32_t entry : Align(npu, bench).bench_of) {
    partners.emplace_back(entry == kNoEntry ? "-" : bench.entries[entry].name);
  }
  return partners;
}

TEST(AlignCalls, SidesThatMadeTheSameCallsNeedNoAlignment) {
  const Side side = SideOf({{"Torch.exp"}, {"Torch.sin"}, {"Torch.exp"}});
  const CallAlignment alignment = Align(side, side);
  EXPECT_FALSE(alignment.differs);
  EXPECT_THAT(alignment.bench_of, IsEmpty());
}

TEST(AlignCalls, CallsThatArePairedByNameAreOnlyPutIntoOrder) {
  const Side npu = SideOf({{"Torch.exp"}, {"Torch.sin"}, {"Torch.exp"}});
  const Side bench = SideOf({{"Torch.sin"}, {"Torch.exp"}});
  base::ThreadPool pool(2);
  const CallOrder order = OrderCalls(npu, bench, CallPairs::kByName, pool);
  EXPECT_EQ(order.plan.order, PlanExecution(npu).order);
  EXPECT_FALSE(order.alignment.differs);
  for (const size_t threads : {1, 3}) {
    EXPECT_TRUE(Align(npu, bench, threads).differs);
    EXPECT_EQ(Align(npu, bench, threads).bench_of, Align(npu, bench).bench_of);
  }
}

// Calls of joined ranks have unique names: a layer that is left out is not mistaken for the next
// one, and experts in another order are no unmatched calls.
TEST(AlignCalls, UniqueNamesTellWhatIsMissingAndWhatIsElsewhere) {
  const auto module = [](const std::string& path) {
    return test_support::CallText("Module." + path + ".Norm.forward.0",
                                  test_support::TensorText(1, "[1]"),
                                  test_support::TensorText(1, "[1]"));
  };
  const auto side = [&](const std::vector<std::string>& paths) {
    std::string entries;
    for (const std::string& path : paths) {
      entries += (entries.empty() ? "" : ",") + module(path);
    }
    return test_support::SideFromEntries(entries);
  };
  base::ThreadPool pool(2);
  const Side npu = side({"a", "layers.1", "experts.0", "experts.2", "experts.1", "z"});
  const Side bench =
      side({"a", "layers.0", "layers.1", "experts.0", "experts.1", "experts.2", "z"});
  const CallAlignment alignment = OrderCalls(npu, bench, CallPairs::kByUniqueName, pool).alignment;
  ASSERT_TRUE(alignment.differs);
  EXPECT_THAT(alignment.bench_of, ElementsAre(0, 2, 3, 5, 4, 6));
  ASSERT_EQ(alignment.unmatched.size(), 1U);
  EXPECT_EQ(alignment.unmatched[0].npu_begin, alignment.unmatched[0].npu_end);
  const uint32_t missing = alignment.forward_bench[alignment.unmatched[0].bench_begin];
  EXPECT_EQ(bench.entries[missing].name, "Module.layers.0.Norm.forward.0");
  const Side moved =
      side({"a", "layers.0", "layers.1", "experts.1", "experts.0", "experts.2", "z"});
  EXPECT_FALSE(OrderCalls(moved, bench, CallPairs::kByUniqueName, pool).alignment.differs);
}

// Shapes are told apart although neighbours mostly have the same one.
TEST(AlignCalls, CallsWithShapesInTurnAreTheSameOnBothSides) {
  std::vector<Call> calls;
  for (int i = 0; i < 6; ++i) {
    calls.push_back({"Torch.exp", 1, i % 2 == 0 ? "[2, 3]" : "[3, 2]"});
  }
  const Side npu = SideOf(calls);
  calls.erase(calls.begin() + 3);
  const CallAlignment alignment = Align(npu, SideOf(calls));
  ASSERT_EQ(alignment.unmatched.size(), 1U);
  EXPECT_EQ(alignment.unmatched[0].npu_end - alignment.unmatched[0].npu_begin, 1U);
}

TEST(AlignCalls, AnExtraCallIsFoundAndLaterCallsArePairedByTheirOrder) {
  const Side npu =
      SideOf({{"Torch.exp"}, {"Torch.sin"}, {"Torch.exp"}, {"Torch.cos"}, {"Torch.exp"}});
  const Side bench = SideOf({{"Torch.exp"}, {"Torch.sin"}, {"Torch.cos"}, {"Torch.exp"}});
  EXPECT_THAT(Partners(npu, bench), ElementsAre("Torch.exp.0.forward", "Torch.sin.0.forward", "-",
                                                "Torch.cos.0.forward", "Torch.exp.1.forward"));
  const CallAlignment alignment = Align(npu, bench);
  ASSERT_EQ(alignment.unmatched.size(), 1U);
  EXPECT_EQ(alignment.unmatched[0].npu_begin, 2U);
  EXPECT_EQ(alignment.unmatched[0].npu_end, 3U);
  EXPECT_EQ(alignment.unmatched[0].bench_begin, alignment.unmatched[0].bench_end);
}

TEST(AlignCalls, AMissingCallIsFoundAndLaterCallsArePairedByTheirOrder) {
  const Side npu = SideOf({{"Torch.exp"}, {"Torch.sin"}, {"Torch.cos"}, {"Torch.exp"}});
  const Side bench =
      SideOf({{"Torch.exp"}, {"Torch.sin"}, {"Torch.exp"}, {"Torch.cos"}, {"Torch.exp"}});
  EXPECT_THAT(Partners(npu, bench), ElementsAre("Torch.exp.0.forward", "Torch.sin.0.forward",
                                                "Torch.cos.0.forward", "Torch.exp.2.forward"));
  const CallAlignment alignment = Align(npu, bench);
  ASSERT_EQ(alignment.unmatched.size(), 1U);
  EXPECT_EQ(alignment.unmatched[0].npu_begin, alignment.unmatched[0].npu_end);
  EXPECT_EQ(alignment.unmatched[0].bench_begin, 2U);
  EXPECT_EQ(alignment.unmatched[0].bench_end, 3U);
}

TEST(AlignCalls, AReplacedCallStandsInPlaceOfTheOther) {
  const Side npu = SideOf({{"Torch.exp"}, {"Functional.gelu"}, {"Torch.cos"}});
  const Side bench = SideOf({{"Torch.exp"}, {"Functional.silu"}, {"Torch.cos"}});
  EXPECT_THAT(Partners(npu, bench), ElementsAre("Torch.exp.0.forward", "-", "Torch.cos.0.forward"));
  const CallAlignment alignment = Align(npu, bench);
  ASSERT_EQ(alignment.unmatched.size(), 1U);
  EXPECT_EQ(alignment.unmatched[0].npu_begin, 1U);
  EXPECT_EQ(alignment.unmatched[0].npu_end, 2U);
  EXPECT_EQ(alignment.unmatched[0].bench_begin, 1U);
  EXPECT_EQ(alignment.unmatched[0].bench_end, 2U);
}

TEST(AlignCalls, CallsOfEqualNamesWhoseShapesDifferAreNotUnmatched) {
  // The extra call at the end makes the sides differ at all.
  const Side npu = SideOf(
      {{"Torch.exp", 1, "[2, 3]"}, {"Torch.sin", 1, "[2, 3]"}, {"Torch.cos"}, {"Torch.tan"}});
  const Side bench =
      SideOf({{"Torch.exp", 1, "[4, 3]"}, {"Torch.sin", 1, "[4, 3]"}, {"Torch.cos"}});
  EXPECT_THAT(Partners(npu, bench), ElementsAre("Torch.exp.0.forward", "Torch.sin.0.forward",
                                                "Torch.cos.0.forward", "-"));
}

TEST(AlignCalls, OfEqualNeighboursTheOneWhoseValuesFitNoOtherIsTooMany) {
  const Side npu = SideOf({{"Torch.exp", 1}, {"Torch.exp", 9}, {"Torch.exp", 2}, {"Torch.exp", 3}});
  const Side bench = SideOf({{"Torch.exp", 1}, {"Torch.exp", 2}, {"Torch.exp", 3}});
  EXPECT_THAT(Partners(npu, bench), ElementsAre("Torch.exp.0.forward", "-", "Torch.exp.1.forward",
                                                "Torch.exp.2.forward"));
  EXPECT_THAT(Partners(bench, npu),
              ElementsAre("Torch.exp.0.forward", "Torch.exp.2.forward", "Torch.exp.3.forward"));
}

TEST(AlignCalls, BackwardCallsFollowTheirForwardCalls) {
  const Side npu = SideOf({{"Torch.exp"},
                           {"Torch.sin"},
                           {"Torch.exp"},
                           {"Torch.cos"},
                           {"Torch.exp"},
                           {"Torch.exp.backward"},
                           {"Torch.exp.backward"},
                           {"Torch.exp.backward"}});
  const Side bench = SideOf({{"Torch.exp"},
                             {"Torch.sin"},
                             {"Torch.cos"},
                             {"Torch.exp"},
                             {"Torch.exp.backward"},
                             {"Torch.exp.backward"}});
  EXPECT_THAT(
      Partners(npu, bench),
      ElementsAre("Torch.exp.0.forward", "Torch.sin.0.forward", "-", "Torch.cos.0.forward",
                  "Torch.exp.1.forward", "Torch.exp.1.backward", "-", "Torch.exp.0.backward"));
}

TEST(AlignCalls, MoreThanAThousandEditsAreLeftToNames) {
  const auto calls = [](std::string_view name, int count) {
    std::vector<Call> made;
    for (int i = 0; i < count; ++i) {
      made.push_back({"Torch.exp"});
      made.push_back({std::string(name)});
      made.push_back({"Torch.exp"});
    }
    made.push_back({"Torch.cos"});
    return made;
  };
  EXPECT_TRUE(Align(SideOf(calls("Torch.sin", 450)), SideOf(calls("Torch.tan", 450))).differs);
  EXPECT_FALSE(Align(SideOf(calls("Torch.sin", 550)), SideOf(calls("Torch.tan", 550))).differs);
}

TEST(AlignCalls, ASideWithoutCallsIsLeftToNames) {
  const Side side = SideOf({{"Torch.exp"}});
  EXPECT_FALSE(Align(side, Side()).differs);
  EXPECT_FALSE(Align(Side(), side).differs);
}

}  // namespace
}  // namespace msprobe::analysis::compare
