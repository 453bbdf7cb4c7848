// A fault that is planted in one element stays, and what has nothing to do with it goes.
#include "src/analysis/repro/minimise.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/repro/captured.h"

namespace msprobe::analysis::repro {
namespace {

using test_support::CallOf;
using test_support::ShapeOf;
using test_support::Spoil;
using ::testing::HasSubstr;

constexpr uint64_t kManyAttempts = 10'000;

base::ThreadPool& Pool() {
  static base::ThreadPool pool(1);
  return pool;
}

recheck::CallVerdict VerdictOf(const CapturedCall& call) {
  const Result<recheck::CallVerdict> verdict = Recheck(call, Pool());
  EXPECT_TRUE(verdict.ok()) << verdict.status().message();
  return *verdict;
}

struct Outcome {
  CapturedCall call;
  Minimised minimised;
  recheck::CallVerdict before;
  recheck::CallVerdict after;
};

Outcome MinimiseIt(CapturedCall call, uint64_t attempts = kManyAttempts,
                   uint64_t most_visits = kMostVisits) {
  Outcome outcome;
  outcome.before = VerdictOf(call);
  EXPECT_EQ(outcome.before.verdict, recheck::Verdict::kBeyond);
  outcome.minimised = Minimise(call, outcome.before, attempts, Pool(), most_visits);
  outcome.after = VerdictOf(call);
  outcome.call = std::move(call);
  // The same element is wrong, in the same way.
  EXPECT_EQ(outcome.after.verdict, recheck::Verdict::kBeyond);
  EXPECT_EQ(outcome.after.worst()->tensor, outcome.before.worst()->tensor);
  EXPECT_EQ(outcome.after.worst()->captured, outcome.before.worst()->captured);
  EXPECT_NEAR(outcome.after.worst()->exact, outcome.before.worst()->exact,
              outcome.before.worst()->bound);
  EXPECT_EQ(outcome.minimised.elements_after, outcome.call.element_count());
  return outcome;
}

TEST(Minimise, LeavesOneElementOfAnElementwiseCall) {
  const Outcome outcome = MinimiseIt(CallOf(MSPROBE_TEST_DATA, "Functional.gelu.0.forward", "npu"));
  EXPECT_EQ(outcome.minimised.elements_before, 64U);
  EXPECT_EQ(outcome.minimised.elements_after, 2U);
  EXPECT_FALSE(outcome.minimised.ran_out);
}

TEST(Minimise, KeepsWhatASumNeeds) {
  CapturedCall call = CallOf(MSPROBE_TEST_DATA, "Functional.linear.0.forward");
  Spoil(call, "Functional.linear.0.forward.output.0.pt", 2 * 8 + 3, 9.0F);
  const Outcome outcome = MinimiseIt(std::move(call));
  // One row times one column and one bias: the six terms of the sum all count.
  EXPECT_EQ(ElementCount(ShapeOf(outcome.call, "Functional.linear.0.forward.input.0.pt")), 6);
  EXPECT_EQ(ElementCount(ShapeOf(outcome.call, "Functional.linear.0.forward.input.1.pt")), 6);
  EXPECT_EQ(ElementCount(ShapeOf(outcome.call, "Functional.linear.0.forward.output.0.pt")), 1);
  EXPECT_EQ(outcome.minimised.elements_after, 14U);
}

TEST(Minimise, KeepsTheDimThatIsNormalised) {
  CapturedCall call = CallOf(MSPROBE_TEST_DATA, "Functional.softmax.0.forward");
  Spoil(call, "Functional.softmax.0.forward.output.0.pt", 5, 2.0F);
  const Outcome outcome = MinimiseIt(std::move(call));
  EXPECT_EQ(ElementCount(ShapeOf(outcome.call, "Functional.softmax.0.forward.output.0.pt")), 4);
}

TEST(Minimise, LeavesTheOtherGradientsOfABackwardCallOut) {
  CapturedCall call = CallOf(MSPROBE_TEST_DATA, "Torch.matmul.0.backward");
  Spoil(call, "Torch.matmul.0.backward.output.1.pt", 1, 7.0F);
  const Outcome outcome = MinimiseIt(std::move(call));
  EXPECT_EQ(outcome.call.tensors.count("Torch.matmul.0.backward.output.0.pt"), 0U);
  EXPECT_LT(outcome.minimised.elements_after, outcome.minimised.elements_before / 2);
}

TEST(Minimise, StopsWhereItsAttemptsEnd) {
  const Outcome outcome =
      MinimiseIt(CallOf(MSPROBE_TEST_DATA, "Functional.gelu.0.forward", "npu"), 1);
  EXPECT_TRUE(outcome.minimised.ran_out);
  EXPECT_EQ(outcome.minimised.attempts, 1U);
}

TEST(Minimise, EndsWhereACallHasVeryManyTensors) {
  constexpr size_t kTensors = 100;
  CapturedCall call;
  call.name = "Torch.cat.0.forward";
  const auto leaf = [](const std::string& file, size_t size) {
    return Json{
        {"type", "torch.Tensor"}, {"dtype", "torch.uint8"}, {"shape", {size}}, {"data_name", file}};
  };
  const auto add = [&](const std::string& file, size_t size, std::byte last) {
    auto held =
        std::make_shared<tensor::TensorBuffer>(DType::kUInt8, Shape{static_cast<int64_t>(size)});
    const std::span<std::byte> bytes = held->mutable_bytes();
    std::fill(bytes.begin(), bytes.end(), std::byte{1});
    bytes.back() = last;
    call.tensors[file] = std::move(held);
    return leaf(file, size);
  };
  Json parts = Json::array();
  for (size_t i = 0; i < kTensors; ++i) {
    parts.push_back(add(fmt::format("{}.npy", i), 2, std::byte{1}));
  }
  call.entries = {{call.name,
                   {{"input_args", Json::array({parts})},
                    {"input_kwargs", Json::object()},
                    {"output", Json::array({add("o.npy", 2 * kTensors, std::byte{2})})}}}};
  const Outcome outcome = MinimiseIt(std::move(call), kManyAttempts, 10 * kTensors);
  EXPECT_TRUE(outcome.minimised.ran_out);
  EXPECT_LE(outcome.minimised.attempts, 10U);
}

TEST(Minimise, NeedsAFaultOfAnElement) {
  EXPECT_THAT(ReasonAgainst(VerdictOf(CallOf(MSPROBE_TEST_DATA, "Functional.gelu.0.forward"))),
              HasSubstr("no fault to keep"));
  EXPECT_EQ(ReasonAgainst(VerdictOf(CallOf(MSPROBE_TEST_DATA, "Functional.gelu.0.forward", "npu"))),
            "");
}

}  // namespace
}  // namespace msprobe::analysis::repro
