#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/report/web_page.h"

namespace msprobe::report {
namespace {

std::string Planes(const std::vector<uint32_t>& values) {
  std::string out;
  AppendPlanes(values, out);
  return out;
}

TEST(PageColumns, LeaveOutPlanesThatAreZero) {
  EXPECT_EQ(Planes({}), std::string(1, '\0'));
  EXPECT_EQ(Planes({0, 0}), std::string(1, '\0'));
  EXPECT_EQ(Planes({1, 255}), std::string("\x01\x01\xff", 3));
  EXPECT_EQ(Planes({1, 0x10203}), std::string("\x03\x01\x03\x00\x02\x00\x01", 7));
  EXPECT_EQ(Planes({0xffffffff}).size(), 5U);
}

TEST(PageColumns, KeepNumbersAsFloats) {
  CellCodes codes;
  const auto back = [&](double value) { return std::bit_cast<float>(codes.Number(value)); };
  EXPECT_EQ(back(0.1F), 0.1F);
  EXPECT_EQ(back(-3.5), -3.5F);
  EXPECT_EQ(back(0), 0.0F);
  EXPECT_EQ(back(std::numeric_limits<double>::infinity()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(back(std::nan(""))));
  EXPECT_TRUE(codes.texts().empty());
}

TEST(PageColumns, KeepNumbersBeyondFloatsAsTexts) {
  CellCodes codes;
  EXPECT_EQ(codes.Number(1e300), codes.Text("1e+300"));
  EXPECT_EQ(codes.Number(-1e-60), codes.Text("-1e-60"));
  EXPECT_EQ(codes.texts(), (std::vector<std::string>{"1e+300", "-1e-60"}));
}

TEST(PageColumns, RoundToTheBitsThatAreKept) {
  CellCodes codes;
  const float rounded = std::bit_cast<float>(codes.Number(0.1234567, 11));
  EXPECT_NEAR(rounded, 0.1234567, 0.1234567 / 4096);
  EXPECT_EQ(codes.Number(0.1234567, 11) & 0xfffU, 0U);
  // Rounding up never makes the largest number infinite.
  EXPECT_TRUE(
      std::isfinite(std::bit_cast<float>(codes.Number(std::numeric_limits<float>::max(), 11))));
}

TEST(PageColumns, TellTextsFromNumbers) {
  CellCodes codes;
  EXPECT_EQ(codes.Text("N/A"), 0x7fd00000U);
  EXPECT_EQ(codes.Text("nan"), 0x7fd00001U);
  EXPECT_EQ(codes.Text("N/A"), 0x7fd00000U);
  EXPECT_NE(CellCodes::kNothing, codes.Number(std::nan("")));
}

TEST(PageColumns, DifferencesOfCloseNumbersAreSmall) {
  CellCodes codes;
  const uint32_t item = codes.Number(1.0);
  EXPECT_EQ(DifferenceOfCodes(item, item), 0U);
  EXPECT_EQ(DifferenceOfCodes(item + 1, item), 2U);
  EXPECT_EQ(DifferenceOfCodes(item, item + 1), 1U);
  // Across zero, too: the smallest numbers of both signs are neighbours.
  EXPECT_LE(DifferenceOfCodes(codes.Number(-0.0), codes.Number(0.0)), 2U);
}

TEST(PageColumns, KeepATextOnce) {
  TextList texts;
  EXPECT_EQ(texts.Add("a"), 0U);
  EXPECT_EQ(texts.Add("b"), 1U);
  EXPECT_EQ(texts.Add("a"), 0U);
  EXPECT_EQ(texts.texts(), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace msprobe::report
