#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "src/perturb/agreement.h"

namespace msprobe::perturb {
namespace {

template <typename Value>
TensorView ViewOf(DType dtype, const std::vector<Value>& values) {
  TensorView view;
  view.dtype = dtype;
  view.shape = {static_cast<int64_t>(values.size() * sizeof(Value) / DTypeSize(dtype))};
  view.strides = {1};
  view.data = reinterpret_cast<const std::byte*>(values.data());
  view.extent_bytes = values.size() * sizeof(Value);
  return view;
}

OperatorAgreement Compare(const std::vector<float>& device, const std::vector<double>& cpu,
                          bool counts_zeros = false) {
  const Result<OperatorAgreement> found =
      CompareOperator(ViewOf(DType::kFloat32, device), ViewOf(DType::kFloat64, cpu), counts_zeros);
  EXPECT_TRUE(found.ok());
  return found.ok() ? *found : OperatorAgreement();
}

TEST(OperatorAgreement, ErrorsAreThoseOfElementsFromOneOn) {
  const OperatorAgreement found = Compare({0.5F, 4.0F, -8.0F}, {0.75, 4.5, -8.25});
  EXPECT_EQ(found.reason, AgreementReason::kMeasured);
  EXPECT_DOUBLE_EQ(found.max_absolute_error, 0.5);
  EXPECT_EQ(found.max_absolute_index, 1U);
  EXPECT_DOUBLE_EQ(found.max_relative_error, 0.5 / (4.5 + 0x1p-23));
  EXPECT_EQ(found.max_relative_index, 1U);
  EXPECT_DOUBLE_EQ(found.error_balance,
                   (-0.25 - 0.5 / (4.5 + 0x1p-23) + 0.25 / (8.25 + 0x1p-23)) / 3);
  EXPECT_FALSE(found.passed);
}

TEST(OperatorAgreement, WithoutElementsFromOneOnThereIsNoPlace) {
  const OperatorAgreement found = Compare({0.25F, 0.5F}, {0.25, 0.5});
  EXPECT_TRUE(found.passed);
  EXPECT_FALSE(found.max_absolute_index.has_value());
  EXPECT_EQ(found.error_limit, 0x1p-14);
}

TEST(OperatorAgreement, ABiasOfEitherSignFails) {
  EXPECT_FALSE(Compare({0.5F, 0.5F}, {0.4, 0.4}).passed);
  EXPECT_FALSE(Compare({0.5F, 0.5F}, {0.6, 0.6}).passed);
}

TEST(OperatorAgreement, WhatIsNotFiniteOnTheDeviceAloneFails) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const OperatorAgreement born = Compare({1.0F, nan}, {1.0, 2.0});
  EXPECT_FALSE(born.passed);
  EXPECT_EQ(born.reason, AgreementReason::kDeviceNotFinite);
  const OperatorAgreement both = Compare({nan, nan}, {1.0, std::nan("")});
  EXPECT_TRUE(both.passed);
  EXPECT_EQ(both.reason, AgreementReason::kCpuNotFinite);
}

TEST(OperatorAgreement, WhatTheDtypeOfTheDeviceCannotHoldIsNoErrorOfTheDevice) {
  const OperatorAgreement found = Compare({std::numeric_limits<float>::infinity()}, {1e39});
  EXPECT_TRUE(found.passed);
  EXPECT_EQ(found.reason, AgreementReason::kCpuNotFinite);
}

TEST(OperatorAgreement, AHalfIsHeldAgainstLimitsOfItsOwnDtype) {
  const std::vector<uint16_t> device = {0x3C01};  // float16 1 + 2^-10
  const std::vector<float> cpu = {1.0F + 0x1p-11F};
  const Result<OperatorAgreement> found =
      CompareOperator(ViewOf(DType::kFloat16, device), ViewOf(DType::kFloat32, cpu), false);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->error_limit, 0x1p-11);
  EXPECT_TRUE(found->passed);
}

TEST(OperatorAgreement, IntegersAreEqualOrNotBeyondWhatADoubleHolds) {
  const std::vector<int64_t> device = {(int64_t{1} << 60) + 1};
  const std::vector<int64_t> cpu = {int64_t{1} << 60};
  EXPECT_FALSE(
      CompareOperator(ViewOf(DType::kInt64, device), ViewOf(DType::kInt64, cpu), false)->passed);
  EXPECT_TRUE(
      CompareOperator(ViewOf(DType::kInt64, device), ViewOf(DType::kInt64, device), false)->passed);
}

TEST(OperatorAgreement, OtherSizesFailAndEmptyTensorsPass) {
  EXPECT_FALSE(Compare({1.0F}, {1.0, 2.0}).passed);
  EXPECT_TRUE(Compare({}, {}).passed);
}

TEST(OperatorAgreement, OfDropoutTheNumberOfZerosCounts) {
  std::vector<float> device(200, 1.0F);
  std::vector<double> cpu(200, 2.0);
  for (size_t i = 0; i < 100; ++i) {
    device[i] = 0;
    cpu[199 - i] = 0;
  }
  EXPECT_TRUE(Compare(device, cpu, true).passed);
  for (size_t i = 0; i < 30; ++i) {
    device[i] = 1;
  }
  EXPECT_FALSE(Compare(device, cpu, true).passed);
}

TEST(OperatorAgreement, ComplexElementsCountAsTheirParts) {
  const std::vector<float> device = {1.0F, 2.0F};
  const std::vector<double> cpu = {1.0, 2.5};
  const Result<OperatorAgreement> found =
      CompareOperator(ViewOf(DType::kComplex64, device), ViewOf(DType::kComplex128, cpu), false);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->passed);
  EXPECT_EQ(found->max_absolute_index, 1U);
}

}  // namespace
}  // namespace msprobe::perturb
