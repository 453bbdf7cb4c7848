#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/checkpoint/megatron/reader.h"
#include "tests/unit/checkpoint/elements.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::checkpoint {
namespace {

using msprobe::test_support::ViewOf;
using test_support::ElementsOf;
using ::testing::ElementsAre;

bool Close(const std::vector<float>& a, const std::vector<float>& b) {
  return AreClose(ViewOf(a, {static_cast<int64_t>(a.size())}),
                  ViewOf(b, {static_cast<int64_t>(b.size())}));
}

TEST(AreClose, AllowsAHundredThousandthOfTheOtherValue) {
  EXPECT_TRUE(Close({1, 2}, {1, 2.00001F}));
  EXPECT_FALSE(Close({1, 2}, {1, 2.0001F}));
  EXPECT_TRUE(Close({0}, {1e-8F}));
  EXPECT_FALSE(Close({0}, {2e-8F}));
  EXPECT_FALSE(Close({1}, {1, 1}));
}

TEST(AreClose, TakesNanForUnlikeAnything) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(Close({NAN}, {NAN}));
  EXPECT_TRUE(Close({infinity, -infinity}, {infinity, -infinity}));
  EXPECT_FALSE(Close({infinity}, {-infinity}));
  EXPECT_FALSE(Close({1}, {infinity}));
}

TEST(AreClose, LooksAtEveryBlock) {
  std::vector<float> a(100'000, 1);
  std::vector<float> b = a;
  EXPECT_TRUE(Close(a, b));
  b.back() = 2;
  EXPECT_FALSE(Close(a, b));
}

TEST(SplitGroupedExperts, TurnsEveryExpertsPartOfTheMemory) {
  // Two experts, hidden 2, inner 3: the memory of both weights is [2][2][3] and [2][3][2].
  std::vector<float> values(12);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
  }
  const std::vector<Parameter> first =
      SplitGroupedExperts(MakeParameter("mlp.experts.weight1", ViewOf(values, {2, 6}), 0), 2);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[1].name, "mlp.experts.local_experts.1.linear_fc1.weight");
  EXPECT_EQ(first[1].shape, (Shape{3, 2}));
  EXPECT_THAT(ElementsOf(first[1]), ElementsAre(6, 9, 7, 10, 8, 11));
  const std::vector<Parameter> second =
      SplitGroupedExperts(MakeParameter("mlp.experts.weight2", ViewOf(values, {6, 2}), 0), 2);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second[0].shape, (Shape{2, 3}));
  EXPECT_THAT(ElementsOf(second[0]), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(SplitGroupedExperts, LeavesOtherNamesAndShapesAlone) {
  const std::vector<float> values(12);
  EXPECT_TRUE(
      SplitGroupedExperts(MakeParameter("a.weight1", ViewOf(values, {2, 6}), 0), 2).empty());
  const Parameter grouped = MakeParameter("a.experts.weight1", ViewOf(values, {2, 6}), 0);
  EXPECT_TRUE(SplitGroupedExperts(grouped, 4).empty());
  EXPECT_TRUE(SplitGroupedExperts(grouped, 0).empty());
  EXPECT_TRUE(SplitGroupedExperts(grouped, int64_t{1} << 60U).empty());
}

TEST(SplitGroupedExperts, MakesNoMillionsOfExpertsOfATensorWithoutElements) {
  const std::vector<float> none(1);
  const Parameter empty = MakeParameter("a.experts.weight2", ViewOf(none, {0, 4}), 0);
  EXPECT_TRUE(SplitGroupedExperts(empty, 3'000'000).empty());
  Parameter unreadable;
  unreadable.name = "a.experts.weight2";
  unreadable.shape = {3'000'000, 4};
  unreadable.status = BadFormatError("no bytes");
  EXPECT_TRUE(SplitGroupedExperts(unreadable, 3'000'000).empty());
  EXPECT_EQ(SplitGroupedExperts(empty, 8).size(), 8U);
}

}  // namespace
}  // namespace msprobe::checkpoint
