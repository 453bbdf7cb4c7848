#include "msprobe/tensor_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Shape, CountsStridesAndText) {
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount({2, 0, 3}), 0);
  EXPECT_EQ(ElementCount({2, 3, 4}), 24);
  EXPECT_THAT(ContiguousStrides({2, 3, 4}), ElementsAre(12, 4, 1));
  EXPECT_THAT(ContiguousStrides({}), IsEmpty());
  EXPECT_EQ(ShapeText({}), "[]");
  EXPECT_EQ(ShapeText({2, 3}), "[2, 3]");
}

TEST(Shape, IsReadFromText) {
  EXPECT_EQ(ParseShape("[]"), Shape());
  EXPECT_EQ(ParseShape("[ ]"), Shape());
  EXPECT_EQ(ParseShape("[2, 0,3 ]"), Shape({2, 0, 3}));
  for (const char* const text :
       {"", "[", "2, 3", "[2", "[2,]", "[,2]", "[2,,3]", "[2 3]", "[-1]", "[2.5]", "[x]",
        "[9223372036854775808]", "[4294967296, 4294967296]"}) {
    EXPECT_EQ(ParseShape(text), std::nullopt) << text;
  }
  EXPECT_TRUE(ParseShape(ShapeText(Shape(kMostShapeAxes, 1))));
  EXPECT_FALSE(ParseShape(ShapeText(Shape(kMostShapeAxes + 1, 1))));
}

TEST(TensorView, IsPlainOnlyInRowMajorOrderWithoutChanges) {
  TensorView view;
  view.shape = {2, 3};
  view.strides = {3, 1};
  EXPECT_TRUE(view.is_plain());
  view.strides = {1, 2};
  EXPECT_FALSE(view.is_plain()) << "transposed";
  view.strides = {0, 1};
  EXPECT_FALSE(view.is_plain()) << "expanded";
  view.strides = {4, 1};
  EXPECT_FALSE(view.is_plain()) << "gaps between rows";
  view.strides = {3, 1};
  view.byte_swapped = true;
  EXPECT_FALSE(view.is_plain());
  view.dtype = DType::kInt8;
  EXPECT_TRUE(view.is_plain()) << "single bytes have no order";
  view.negated = true;
  EXPECT_FALSE(view.is_plain());
}

TEST(TensorView, StridesOfAxesOfLengthOneDoNotMatter) {
  TensorView view;
  view.shape = {1, 3, 1};
  view.strides = {77, 1, 99};
  EXPECT_TRUE(view.is_plain());
  EXPECT_EQ(view.size_bytes(), 12U);
}

}  // namespace
}  // namespace msprobe
