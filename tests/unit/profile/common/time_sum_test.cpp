#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include "src/profile/common/values.h"

namespace msprobe::profile {
namespace {

TEST(SumOfTimes, EndsWhere64BitsEnd) {
  EXPECT_EQ(SumOfTimes(2, -5), -3);
  EXPECT_EQ(SumOfTimes(INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(SumOfTimes(INT64_MIN, -1), INT64_MIN);
}

TEST(NanosecondsOf, IsTheNearestOneThatThereIs) {
  EXPECT_EQ(NanosecondsOf(1.0015), 1002);
  EXPECT_EQ(NanosecondsOf(-0.4), -400);
  EXPECT_EQ(NanosecondsOf(1e300), INT64_MAX);
  EXPECT_EQ(NanosecondsOf(-HUGE_VAL), INT64_MIN);
  EXPECT_EQ(NanosecondsOf(9223372036854775.808), INT64_MAX);
  EXPECT_EQ(NanosecondsOf(NAN), 0);
}

}  // namespace
}  // namespace msprobe::profile
