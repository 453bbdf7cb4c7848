#include <cmath>

#include <gtest/gtest.h>

#include "src/analysis/kernel_dump/numbers.h"

namespace msprobe::analysis::kernel_dump {
namespace {

TEST(NumpyText, HasTheFewestDigitsOfItsType) {
  EXPECT_EQ(NumpyText(DType::kFloat16, 3.091796875), "3.092");
  EXPECT_EQ(NumpyText(DType::kFloat16, -0.0050468), "-0.005047");
  EXPECT_EQ(NumpyText(DType::kFloat32, 2.719919919967651), "2.71992");
  EXPECT_EQ(NumpyText(DType::kFloat64, 0.1), "0.1");
  EXPECT_EQ(NumpyText(DType::kBFloat16, 1.5), "1.5");
  EXPECT_EQ(NumpyText(DType::kInt8, -9), "-9");
  EXPECT_EQ(NumpyText(DType::kBool, 1), "True");
  EXPECT_EQ(NumpyMeanText(DType::kUInt8, 67.56770833333333), "67.56770833333333");
  EXPECT_EQ(NumpyText(DType::kFloat32, -INFINITY), "-inf");
}

}  // namespace
}  // namespace msprobe::analysis::kernel_dump
