#include <vector>

#include <gtest/gtest.h>

#include "src/grad_probe/probe.h"

namespace msprobe::grad_probe {
namespace {

TEST(GradProbeSummaryRow, HeadersNameEveryIntervalThatRowsHave) {
  const std::vector<Bound> bounds = {{-0.01, "-0.01"}, {0, "0"}};
  EXPECT_EQ(HeaderLine(Level::kL2, bounds),
            "\xEF\xBB\xBFparam_name,\"(-inf, -0.01]\",\"(-0.01, 0]\",\"(0, inf)\",=0,max,min,norm,"
            "shape\r\n");
  EXPECT_EQ(HeaderLine(Level::kL2, {}),
            "\xEF\xBB\xBFparam_name,\"(-inf, inf)\",=0,max,min,norm,shape\r\n");
}

TEST(GradProbeSummaryRow, NamesAreQuotedWhereCsvNeedsIt) {
  Numbers numbers;
  numbers.element_count = 8;
  numbers.zero_count = 2;
  numbers.intervals = {8};
  numbers.max = 0.5;
  std::string row;
  AppendRow("a \"b\", c", numbers, {2, 4}, Level::kL2, row);
  EXPECT_EQ(row, "\"a \"\"b\"\", c\",1.0,0.25,0.5,0.0,0.0,\"[2, 4]\"\r\n");
}

TEST(GradProbeSummaryRow, AChecksumHasEightDigits) {
  Numbers numbers;
  numbers.crc32 = 0x4FF69F5;
  std::string row;
  AppendRow("w", numbers, {}, Level::kL0, row);
  EXPECT_EQ(row, "w,04ff69f5,0.0,0.0,0.0,[]\r\n");
}

}  // namespace
}  // namespace msprobe::grad_probe
