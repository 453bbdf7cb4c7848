// A table of spellings here; tests/python/number_text_test.py holds 100,000 random values against
// Python itself.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "src/base/numbers.h"

namespace msprobe::base {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(PythonFloatRepr, SpellsAsPythonDoes) {
  const struct {
    double value;
    const char* text;
  } kCases[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {-2.5, "-2.5"},
      {0.1, "0.1"},
      {1e-4, "0.0001"},
      {1e-5, "1e-05"},
      {-1.25e-7, "-1.25e-07"},
      {123456789.125, "123456789.125"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {9007199254740993.0, "9007199254740992.0"},
      {1.5e300, "1.5e+300"},
      {5e-324, "5e-324"},
      {2.2250738585072014e-308, "2.2250738585072014e-308"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {0.30000000000000004, "0.30000000000000004"},
      {static_cast<double>(0.1F), "0.10000000149011612"},
      {kInfinity, "inf"},
      {-kInfinity, "-inf"},
      {std::nan(""), "nan"},
      {-std::nan(""), "nan"},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(PythonFloatRepr(test.value), test.text);
  }
}

TEST(AppendGeneral, FollowsPrintf) {
  std::string text = "x=";
  AppendGeneral(0.1, 16, text);
  EXPECT_EQ(text, "x=0.1");
  text.clear();
  AppendGeneral(1.0 / 3.0, 4, text);
  EXPECT_EQ(text, "0.3333");
  text.clear();
  AppendGeneral(1e20, 16, text);
  EXPECT_EQ(text, "1e+20");
}

TEST(ParseDouble, AcceptsWhatPythonFloatAccepts) {
  EXPECT_EQ(ParseDouble(" 1.5\n"), 1.5);
  EXPECT_EQ(ParseDouble("+3"), 3.0);
  EXPECT_EQ(ParseDouble("-.5"), -0.5);
  EXPECT_EQ(ParseDouble("1."), 1.0);
  EXPECT_EQ(ParseDouble("1E5"), 1e5);
  EXPECT_EQ(ParseDouble("-INF"), -kInfinity);
  EXPECT_EQ(ParseDouble("Infinity"), kInfinity);
  EXPECT_EQ(ParseDouble("1e999"), kInfinity);
  EXPECT_EQ(ParseDouble("-1e999"), -kInfinity);
  EXPECT_EQ(ParseDouble("1e-999"), 0.0);
  EXPECT_TRUE(std::isnan(ParseDouble("NaN").value_or(0)));
}

TEST(ParseDouble, RefusesEverythingElse) {
  for (const char* text : {"", " ", "+", "-", "--1", "+-1", "1 2", "0x10", "1e", "1.5.2", "nan(1)",
                           "infinit", "N/A", "1,5", "e5", "."}) {
    EXPECT_EQ(ParseDouble(text), std::nullopt) << text;
  }
}

TEST(ParseInt, WholeTextsInRangeOnly) {
  EXPECT_EQ(ParseInt(" -12 "), -12);
  EXPECT_EQ(ParseInt("+7"), 7);
  EXPECT_EQ(ParseInt("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* text : {"", "+", "-", "+-5", "1.0", "9223372036854775808", "1a"}) {
    EXPECT_EQ(ParseInt(text), std::nullopt) << text;
  }
}

TEST(AppendPythonTextRepr, QuotesAndEscapesAsPythonDoes) {
  const auto repr = [](std::string_view text) {
    std::string out;
    AppendPythonTextRepr(text, out);
    return out;
  };
  EXPECT_EQ(repr("plain"), "'plain'");
  EXPECT_EQ(repr("it's"), "\"it's\"");
  EXPECT_EQ(repr("'\""), "'\\'\"'");
  EXPECT_EQ(repr("a\\b\n\t\x01\x7f"), "'a\\\\b\\n\\t\\x01\\x7f'");
}

}  // namespace
}  // namespace msprobe::base
