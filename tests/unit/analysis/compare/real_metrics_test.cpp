#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "src/analysis/compare/real_data.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::compare {
namespace {

template <typename Value>
tensor::TensorBuffer Make(DType dtype, const Shape& shape, const std::vector<Value>& values) {
  tensor::TensorBuffer buffer(dtype, shape);
  if (!values.empty()) {
    std::memcpy(buffer.mutable_bytes().data(), values.data(), values.size() * sizeof(Value));
  }
  return buffer;
}

tensor::TensorBuffer Floats(const std::vector<float>& values) {
  return Make(DType::kFloat32, {static_cast<int64_t>(values.size())}, values);
}

RealMetrics Compare(const tensor::TensorBuffer& npu, const tensor::TensorBuffer& bench) {
  return ComputeRealMetrics(npu.view(), bench.view());
}

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(ComputeRealMetrics, GivesNoCosineForZerosAgainstOnesYetAccuracyIsReached) {
  const RealMetrics result = Compare(Floats({1, 1, 1, 1}), Floats({0, 0, 0, 0}));
  EXPECT_EQ(result.metrics[kCosine].text(), "Nan");
  EXPECT_EQ(result.metrics[kMaxAbsErr].number(), 1);
  EXPECT_NEAR(result.metrics[kMaxRelativeErr].number(), 4503599627370496.0, 1e6);
  EXPECT_EQ(result.metrics[kOneThousandth].number(), 0);
  EXPECT_EQ(RealVerdict(result.metrics), Verdict::kYes);
}

TEST(ComputeRealMetrics, ComparesBoolsAsNumbers) {
  const auto npu = Make<uint8_t>(DType::kBool, {4}, {1, 0, 1, 1});
  const auto bench = Make<uint8_t>(DType::kBool, {4}, {1, 1, 1, 0});
  const RealMetrics result = Compare(npu, bench);
  EXPECT_EQ(result.metrics[kCosine].number(), 0.666666666667);
  EXPECT_DOUBLE_EQ(result.metrics[kEucDist].number(), 1.414213562373095);
  EXPECT_EQ(result.metrics[kOneThousandth].number(), 0.5);
}

TEST(ComputeRealMetrics, RoundsANearlyPerfectCosineToSixDecimals) {
  const RealMetrics result = Compare(Floats({1.0F, 2.0F, 3.0F}), Floats({1.0F, 2.0F, 3.0005F}));
  EXPECT_EQ(result.metrics[kCosine].number(), 1.0);
}

TEST(ComputeRealMetrics, MarksDifferentShapes) {
  const auto npu = Make<float>(DType::kFloat32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const auto bench = Make<float>(DType::kFloat32, {3, 2}, {1, 2, 3, 4, 5, 6});
  const RealMetrics result = Compare(npu, bench);
  EXPECT_EQ(result.metrics[kEucDist].text(), "shape unmatched");
  EXPECT_EQ(RealVerdict(result.metrics), Verdict::kUnmatched);
}

TEST(ComputeRealMetrics, MarksAZeroDimensionalTensorAgainstALargerOne) {
  const auto npu = Make<float>(DType::kFloat32, {}, {1});
  EXPECT_EQ(RealVerdict(Compare(npu, Floats({1, 2})).metrics), Verdict::kUnmatched);
}

TEST(ComputeRealMetrics, ComparesZeroDimensionalTensorsByTheirErrorsOnly) {
  const auto npu = Make<int32_t>(DType::kInt32, {}, {7});
  const auto bench = Make<int32_t>(DType::kInt32, {}, {0});
  const RealMetrics result = Compare(npu, bench);
  EXPECT_EQ(result.metrics[kCosine].text(), "unsupported");
  EXPECT_EQ(result.metrics[kMaxAbsErr].number(), 7);
  EXPECT_NEAR(result.metrics[kMaxRelativeErr].number() / 3.152519739159347e+16, 1.0, 1e-12);
}

TEST(ComputeRealMetrics, ShowsNanOfZeroDimensionalTensors) {
  const auto nan = Make<float>(DType::kFloat32, {}, {NAN});
  EXPECT_EQ(Compare(nan, nan).metrics[kMaxAbsErr].text(), "Nan");
}

TEST(ComputeRealMetrics, TakesInfinitiesAtTheSamePlaceForEqualWhateverTheirSign) {
  const RealMetrics result = Compare(Floats({kInf, -kInf}), Floats({-kInf, kInf}));
  EXPECT_EQ(result.metrics[kCosine].number(), 1);
  EXPECT_EQ(result.metrics[kMaxAbsErr].number(), 0);
  EXPECT_EQ(RealVerdict(result.metrics), Verdict::kYes);
  EXPECT_TRUE(result.distance.nonfinite_differs);
}

TEST(ComputeRealMetrics, RefusesNonFiniteValuesOnOneSideOnly) {
  const RealMetrics result = Compare(Floats({1, kInf}), Floats({1, 2}));
  EXPECT_EQ(result.metrics[kCosine].text(), "N/A");
  EXPECT_EQ(RealVerdict(result.metrics), Verdict::kNo);
  EXPECT_FALSE(result.message.empty());
}

TEST(ComputeRealMetrics, HasNothingToSayAboutEmptyTensors) {
  const RealMetrics result = Compare(Floats({}), Floats({}));
  EXPECT_EQ(result.metrics[kCosine].text(), "unsupported");
  EXPECT_EQ(RealVerdict(result.metrics), Verdict::kNone);
}

TEST(ComputeRealMetrics, WidensBFloat16AgainstFloat32WithoutADTypeNote) {
  const auto npu = Make<uint16_t>(DType::kBFloat16, {2}, {0x3F80, 0x4000});  // 1, 2
  const RealMetrics result = Compare(npu, Floats({1, 2}));
  EXPECT_TRUE(result.message.empty());
  EXPECT_TRUE(result.distance.identical);
}

TEST(ComputeRealMetrics, DoesNotDependOnHowAViewIsStrided) {
  const auto plain = Make<float>(DType::kFloat32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const auto other = Make<float>(DType::kFloat32, {3, 2}, {1, 4.5F, 2, 5, 3, 6});
  TensorView transposed = other.view();
  transposed.shape = {2, 3};
  transposed.strides = {1, 2};
  const RealMetrics result = ComputeRealMetrics(plain.view(), transposed);
  EXPECT_EQ(result.metrics[kMaxAbsErr].number(), 0.5);
}

TEST(RealVerdict, FollowsTheTwoThresholdPairs) {
  std::array<Metric, kMetricSlots> metrics;
  metrics[kCosine] = Metric::Number(0.98);
  metrics[kMaxAbsErr] = Metric::Number(0.0005);
  EXPECT_EQ(RealVerdict(metrics), Verdict::kYes);
  metrics[kMaxAbsErr] = Metric::Number(0.002);
  EXPECT_EQ(RealVerdict(metrics), Verdict::kNo);
  metrics[kCosine] = Metric::Number(0.999);
  metrics[kMaxAbsErr] = Metric::Number(1.5);
  EXPECT_EQ(RealVerdict(metrics), Verdict::kNo);
}

TEST(Squeezed, LeavesOutAxesOfOneAndKeepsTheOthersStrides) {
  const auto buffer = Make<float>(DType::kFloat32, {1, 2, 1, 3}, {1, 2, 3, 4, 5, 6});
  const TensorView view = Squeezed(buffer.view());
  EXPECT_EQ(view.shape, (Shape{2, 3}));
  EXPECT_EQ(view.strides, (Shape{3, 1}));
  EXPECT_TRUE(Squeezed(Floats({7}).view()).shape.empty());
}

TEST(ComputeRealMetrics, ComparesSingleValuesInFloat32For26) {
  const auto npu = Make<int64_t>(DType::kInt64, {}, {7});
  const auto bench = Make<int64_t>(DType::kInt64, {}, {0});
  EXPECT_EQ(
      ComputeRealMetrics(npu.view(), bench.view(), Edition::kV26).metrics[kMaxRelativeErr].number(),
      58720256.0);
}

}  // namespace
}  // namespace msprobe::analysis::compare
