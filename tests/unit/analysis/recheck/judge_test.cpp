#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/recheck/recompute.h"
#include "tests/unit/reference/test_pool.h"

namespace msprobe::analysis::recheck {

using reference::CapturedTensor;
using reference::MakeValue;
using reference::Pool;
using reference::Rounding;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Judgement Judged(DType dtype, double captured, double exact, double error) {
  CapturedTensor tensor;
  tensor.name = "output.0";
  tensor.dtype = dtype;
  tensor.value = MakeValue({1}, {captured});
  return Judge(
      tensor,
      MakeValue({1}, {exact}, error == 0 ? std::vector<double>() : std::vector<double>{error}),
      Rounding::Of(dtype, false), Pool());
}

TEST(Judge, StoringCostsHalfAUnitInTheLastPlace) {
  EXPECT_EQ(Judged(DType::kBFloat16, 1, 1 + 0x1p-8, 0).verdict, Verdict::kWithin);
  EXPECT_EQ(Judged(DType::kBFloat16, 1, 1 + 0x1p-7, 0).verdict, Verdict::kBeyond);
}

TEST(Judge, NanMustMeetNan) {
  EXPECT_EQ(Judged(DType::kFloat32, kNan, kNan, 0).verdict, Verdict::kWithin);
  EXPECT_EQ(Judged(DType::kFloat32, kNan, kNan, kNan).verdict, Verdict::kWithin);
  EXPECT_EQ(Judged(DType::kFloat32, 1, kNan, 0).verdict, Verdict::kBeyond);
  EXPECT_EQ(Judged(DType::kFloat32, kNan, 1, 0.1).verdict, Verdict::kBeyond);
}

TEST(Judge, OverflowIsAllowedOnlyWhereItMayHappen) {
  EXPECT_EQ(Judged(DType::kFloat16, kInfinity, 70000, 1).verdict, Verdict::kWithin);
  EXPECT_EQ(Judged(DType::kFloat16, -kInfinity, 70000, 1).verdict, Verdict::kBeyond);
  EXPECT_EQ(Judged(DType::kFloat16, kInfinity, 6000, 1).verdict, Verdict::kBeyond);
}

TEST(Judge, IntegersWrapAround) {
  EXPECT_EQ(Judged(DType::kInt8, -128, 128, 0).verdict, Verdict::kWithin);
  EXPECT_EQ(Judged(DType::kUInt8, 255, -1, 0).verdict, Verdict::kWithin);
  EXPECT_EQ(Judged(DType::kInt32, 3, 4, 0).verdict, Verdict::kBeyond);
}

TEST(Judge, WhatIsNotKnownIsNotJudged) {
  EXPECT_EQ(Judged(DType::kFloat32, 5, 1, kInfinity).verdict, Verdict::kNotCheckable);
  CapturedTensor unread;
  unread.problem = "the values of output.0 were not saved";
  EXPECT_EQ(
      Judge(unread, MakeValue({1}, {1.0}), Rounding::Of(DType::kFloat32, false), Pool()).reason,
      unread.problem);
}

TEST(Judge, AnotherShapeIsBeyond) {
  CapturedTensor tensor;
  tensor.value = MakeValue({2}, {1, 2});
  const Judgement judgement =
      Judge(tensor, MakeValue({1, 2}, {1, 2}), Rounding::Of(DType::kFloat32, false), Pool());
  EXPECT_EQ(judgement.verdict, Verdict::kBeyond);
  EXPECT_EQ(judgement.reason, "its shape is [2] instead of [1, 2]");
}

// A long tensor: elements of 1 + i / 2^20, each off by a quarter of its bound where nothing is
// planted.
struct LongTensor {
  static constexpr size_t kElements = 200000;
  std::vector<double> captured = std::vector<double>(kElements);
  std::vector<double> exact = std::vector<double>(kElements);
  std::vector<double> error = std::vector<double>(kElements, 0x1p-20);

  LongTensor() {
    for (size_t i = 0; i < kElements; ++i) {
      exact[i] = 1 + static_cast<double>(i) * 0x1p-20;
      captured[i] = exact[i] + 0x1p-22;
    }
  }
  Judgement Judged(size_t threads = 3) const {
    CapturedTensor tensor;
    tensor.dtype = DType::kFloat32;
    tensor.value = MakeValue({2, kElements / 2}, captured);
    base::ThreadPool pool(threads);
    return Judge(tensor, MakeValue({2, kElements / 2}, exact, error),
                 Rounding::Of(DType::kFloat32, false), pool);
  }
};

TEST(Judge, FindsTheWorstOfManyElements) {
  LongTensor tensor;
  EXPECT_EQ(tensor.Judged().verdict, Verdict::kWithin);
  EXPECT_EQ(tensor.Judged().element, "[0, 0]");  // the smallest has the smallest bound
  tensor.captured[123456] += 0x1p-18;
  tensor.captured[199999] += 0x1p-19;
  for (const size_t threads : {1, 2, 5}) {
    const Judgement judgement = tensor.Judged(threads);
    EXPECT_EQ(judgement.verdict, Verdict::kBeyond);
    EXPECT_EQ(judgement.element, "[1, 23456]");
    EXPECT_EQ(judgement.captured, tensor.captured[123456]);
    EXPECT_EQ(judgement.exact, tensor.exact[123456]);
    EXPECT_EQ(judgement.beyond, 2U);
    EXPECT_EQ(judgement.elements, LongTensor::kElements);
    EXPECT_NEAR(judgement.ratio, (0x1p-18 + 0x1p-22) / 0x1.1p-20, 0.3);
  }
}

// After the worst one of a part, the others are counted without being looked at one by one.
TEST(Judge, CountsElementsThatAreNotTheWorst) {
  LongTensor tensor;
  tensor.captured[1000] += 0x1p-16;
  for (const size_t index : {5000, 5001, 9000, 150000}) {
    tensor.captured[index] += 0x1p-18;  // a quarter of that: nearly as far off
  }
  for (const size_t index : {20000, 20001, 160000}) {
    tensor.captured[index] += 0x1.8p-20;  // beyond, but no more than that
  }
  const Judgement judgement = tensor.Judged();
  EXPECT_EQ(judgement.element, "[0, 1000]");
  EXPECT_EQ(judgement.beyond, 8U);
  EXPECT_EQ(judgement.nearly_as_far, 5U);
}

TEST(Judge, NamesTheFirstOfSeveralThatAreEquallyFarOff) {
  LongTensor tensor;
  tensor.captured[70001] = kNan;
  tensor.captured[70000] = kInfinity;
  tensor.captured[150000] = kNan;
  const Judgement judgement = tensor.Judged();
  EXPECT_EQ(judgement.element, "[0, 70000]");
  EXPECT_EQ(judgement.ratio, kInfinity);
  EXPECT_EQ(judgement.beyond, 3U);
  EXPECT_EQ(judgement.nearly_as_far, 3U);
}

TEST(Judge, CountsWhatIsNotKnownAmongManyElements) {
  LongTensor tensor;
  tensor.error[7] = kInfinity;
  tensor.error[180000] = kNan;
  tensor.exact[180001] = kNan;
  tensor.captured[180001] = kNan;
  const Judgement judgement = tensor.Judged();
  EXPECT_EQ(judgement.verdict, Verdict::kWithin);
  EXPECT_EQ(judgement.unjudged, 2U);
  EXPECT_EQ(judgement.beyond, 0U);
}

}  // namespace
}  // namespace msprobe::analysis::recheck
