#include <gtest/gtest.h>

#include "src/profile/common/values.h"

namespace msprobe::profile {
namespace {

TEST(ParseMicroseconds, KeepsEveryNanosecond) {
  EXPECT_EQ(ParseMicroseconds("1700000000001000.123"), 1700000000001000123);
  EXPECT_EQ(ParseMicroseconds("1001000"), 1001000000);
  EXPECT_EQ(ParseMicroseconds("9223372036854775.807"), INT64_MAX);
  EXPECT_EQ(ParseMicroseconds("00000000000000001.5"), 1500);
  EXPECT_EQ(ParseMicroseconds("1.2"), 1200);
  EXPECT_EQ(ParseMicroseconds("0.5"), 500);
  EXPECT_EQ(ParseMicroseconds(".5"), 500);
  EXPECT_EQ(ParseMicroseconds("5."), 5000);
  EXPECT_EQ(ParseMicroseconds("-2.25"), -2250);
  EXPECT_EQ(ParseMicroseconds("1700000000003002.052\t"), 1700000000003002052);
}

TEST(ParseMicroseconds, RoundsBelowANanosecond) {
  EXPECT_EQ(ParseMicroseconds("1.0004"), 1000);
  EXPECT_EQ(ParseMicroseconds("1.0005"), 1001);
  EXPECT_EQ(ParseMicroseconds("0.00049999"), 0);
}

TEST(ParseMicroseconds, ReadsExponents) {
  EXPECT_EQ(ParseMicroseconds("1.5e3"), 1500000);
  EXPECT_EQ(ParseMicroseconds("25E-1"), 2500);
  EXPECT_EQ(ParseMicroseconds("1e-9"), 0);
  EXPECT_EQ(ParseMicroseconds("0e999"), 0);
}

TEST(ParseMicroseconds, RefusesWhatIsNoTime) {
  for (const char* text : {"", " ", ".", "-", "e5", "1e", "1e+-5", "1.2.3", "N/A", "0x10", "nan",
                           "9300000000000000000", "1e30", "1e99999"}) {
    EXPECT_EQ(ParseMicroseconds(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseMicroseconds("9223372036854775.807"), INT64_MAX);
  EXPECT_EQ(ParseMicroseconds("9223372036854775.808"), std::nullopt);
}

}  // namespace
}  // namespace msprobe::profile
