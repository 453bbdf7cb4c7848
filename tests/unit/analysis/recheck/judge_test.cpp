#include "src/analysis/recheck/judge.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace msprobe::analysis::recheck {
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
      Rounding::Of(dtype, false));
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
  EXPECT_EQ(Judge(unread, MakeValue({1}, {1.0}), Rounding::Of(DType::kFloat32, false)).reason,
            unread.problem);
}

TEST(Judge, AnotherShapeIsBeyond) {
  CapturedTensor tensor;
  tensor.value = MakeValue({2}, {1, 2});
  const Judgement judgement =
      Judge(tensor, MakeValue({1, 2}, {1, 2}), Rounding::Of(DType::kFloat32, false));
  EXPECT_EQ(judgement.verdict, Verdict::kBeyond);
  EXPECT_EQ(judgement.reason, "its shape is [2] instead of [1, 2]");
}

}  // namespace
}  // namespace msprobe::analysis::recheck
