#include "msprobe/status.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace msprobe {
namespace {

TEST(Status, DefaultIsSuccess) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "ok");
  EXPECT_EQ(status.hint(), "");
}

TEST(Status, ContextStandsInFrontOutermostFirst) {
  const Status status =
      BadFormatError("truncated").AddContext("member data/0").AddContext("cannot read a.pt");
  EXPECT_EQ(status.message(), "cannot read a.pt: member data/0: truncated");
  EXPECT_EQ(status.code(), StatusCode::kBadFormat);
}

TEST(Status, SuccessTakesNoContext) {
  Status status = Status().AddContext("x").WithHint("y");
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.hint(), "");
}

TEST(Status, CopiesAreIndependent) {
  const Status original = IoError("no").WithHint("remedy");
  Status copy = original;
  copy.AddContext("outer");
  EXPECT_EQ(original.message(), "no");
  EXPECT_EQ(copy.message(), "outer: no");
  EXPECT_EQ(copy.hint(), "remedy");
  copy = Status();
  EXPECT_TRUE(copy.ok());
}

Result<int> Half(int value) {
  if (value % 2 != 0) {
    return UsageError(std::to_string(value) + " is odd");
  }
  return value / 2;
}

Result<int> Quarter(int value) {
  MSP_ASSIGN_OR_RETURN(const int half, Half(value), "quarter of ", std::to_string(value));
  MSP_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status Check(int value) {
  MSP_RETURN_IF_ERROR(Quarter(value).status(), "check");
  return OkStatus();
}

TEST(Result, MacrosPassValuesOnAndReturnErrorsWithContext) {
  const Result<int> good = Quarter(12);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 3);
  EXPECT_EQ(Quarter(3).status().message(), "quarter of 3: 3 is odd");
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
  EXPECT_EQ(Check(6).message(), "check: 3 is odd");
  EXPECT_TRUE(Check(8).ok());
}

TEST(Result, CarriesMoveOnlyValues) {
  Result<std::unique_ptr<int>> made(std::make_unique<int>(5));
  ASSERT_TRUE(made.ok());
  const std::unique_ptr<int> value = *std::move(made);
  EXPECT_EQ(*value, 5);
}

}  // namespace
}  // namespace msprobe
