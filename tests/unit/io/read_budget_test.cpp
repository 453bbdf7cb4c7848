#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/contents.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::io {
namespace {

TEST(ReadBudget, RefusesViewsThatRepeatAFewBytesWithoutEnd) {
  const float item = 1.0F;
  TensorView view;
  view.shape = {int64_t{1} << 31, int64_t{1} << 31};
  view.strides = {0, 0};
  view.data = reinterpret_cast<const std::byte*>(&item);
  view.extent_bytes = sizeof(item);
  ReadBudget budget(1000);
  const Status status = budget.Take(view);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("too many repeated bytes"));
}

TEST(ReadBudget, RefusesOneStorageNamedTooOften) {
  std::vector<float> values(1 << 20);
  const TensorView view = msprobe::test_support::ViewOf(values, {1 << 20});
  ReadBudget budget(values.size() * sizeof(float));
  int taken = 0;
  while (taken < 100'000 && budget.Take(view).ok()) {
    ++taken;
  }
  EXPECT_GE(taken, 8);
  EXPECT_LT(taken, 1000);
}

TEST(ReadBudget, TakesAnHonestFileOfAnySize) {
  TensorView view;
  view.shape = {int64_t{1} << 40};
  view.strides = {1};
  view.extent_bytes = size_t{4} << 40U;
  ReadBudget budget((uint64_t{4} << 40U) + 4096);
  EXPECT_TRUE(budget.Take(view).ok());
}

TEST(ReadBudget, OfSeveralFilesIsTheSumOfTheirs) {
  std::vector<float> values(1 << 20);
  const TensorView view = msprobe::test_support::ViewOf(values, {1 << 20});
  ReadBudget budget = ReadBudget::ForMemory(0);
  int taken = 0;
  while (taken < 1000 && budget.Take(view).ok()) {
    ++taken;
  }
  EXPECT_EQ(taken, 64);  // 256 MiB
  budget.AddFile(uint64_t{4} << 20U);
  EXPECT_TRUE(budget.Take(view).ok());
  budget.AddFile(UINT64_MAX);
  EXPECT_TRUE(budget.Take(view).ok());
}

}  // namespace
}  // namespace msprobe::io
