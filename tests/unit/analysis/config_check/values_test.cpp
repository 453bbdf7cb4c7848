#include <string>

#include <gtest/gtest.h>

#include "src/analysis/config_check/parameters.h"

namespace msprobe::analysis::config_check {
namespace {

json::Json Parse(std::string_view text) {
  Result<json::Json> tree = json::ParseDocument(text);
  EXPECT_TRUE(tree.ok()) << text;
  return *std::move(tree);
}

bool Equal(std::string_view a, std::string_view b) {
  const json::Json tree_a = Parse(a);
  const json::Json tree_b = Parse(b);
  EXPECT_EQ(PythonEqual(tree_a, tree_b), PythonEqual(tree_b, tree_a));
  return PythonEqual(tree_a, tree_b);
}

TEST(PythonEqual, TakesNumbersAndBooleansForWhatTheyAreWorth) {
  EXPECT_TRUE(Equal("1", "1.0"));
  EXPECT_TRUE(Equal("1", "true"));
  EXPECT_TRUE(Equal("0.0", "false"));
  EXPECT_TRUE(Equal("-0.0", "0"));
  EXPECT_FALSE(Equal("1", "\"1\""));
  EXPECT_FALSE(Equal("0", "null"));
  EXPECT_FALSE(Equal("Infinity", "-Infinity"));
}

TEST(PythonEqual, KnowsThatNanEqualsNothing) { EXPECT_FALSE(Equal("NaN", "NaN")); }

TEST(PythonEqual, ComparesLargeNumbersExactly) {
  EXPECT_TRUE(Equal("123456789012345678901234567890", "123456789012345678901234567890"));
  EXPECT_FALSE(Equal("123456789012345678901234567890", "123456789012345678901234567891"));
  EXPECT_FALSE(Equal("9007199254740993", "9007199254740992.0"));
  EXPECT_TRUE(Equal("100000000000000000000", "1e20"));
}

TEST(PythonEqual, ComparesContainersByContent) {
  EXPECT_TRUE(Equal(R"([1, {"a": null}])", R"([1.0, {"a": null}])"));
  EXPECT_FALSE(Equal("[1]", "[1, 2]"));
  EXPECT_TRUE(Equal(R"({"a": 1, "b": 2})", R"({"b": 2, "a": 1})"));
  EXPECT_FALSE(Equal(R"({"a": 1})", R"({"b": 1})"));
}

TEST(Members, KeepTheFirstPlaceAndTheLastValueOfARepeatedKey) {
  const json::Json tree = Parse(R"({"a": 1, "b": 2, "a": 3})");
  const Members members(tree);
  ASSERT_EQ(members.size(), 2U);
  EXPECT_EQ(members[0].key, "a");
  EXPECT_EQ(json::IntOf(*members[0].value), 3);
  EXPECT_EQ(members.Find("c"), nullptr);
}

TEST(ValueCell, ShowsValuesAsAWorkbookOfThePythonToolDoes) {
  report::Table table("t", {"a"});
  const auto shown = [&table](std::string_view text) {
    const json::Json tree = Parse(text);
    const report::Cell cell = ValueCell(table, tree);
    return std::to_string(static_cast<int>(cell.kind())) + ":" + report::CellText(cell);
  };
  EXPECT_EQ(shown("null"), "0:");
  EXPECT_EQ(shown("NaN"), "0:");
  EXPECT_EQ(shown("\"\""), "0:");
  EXPECT_EQ(shown("-Infinity"), "1:-inf");
  EXPECT_EQ(shown("\"=1+1\""), "1:=1+1");
  EXPECT_EQ(shown("[1, \"a\", null, true, 0.5]"), "1:[1, 'a', None, True, 0.5]");
  EXPECT_EQ(shown("{\"a\": {}}"), "1:{'a': {}}");
  EXPECT_EQ(shown("7"), "2:7");
  EXPECT_EQ(shown("0.5"), "3:0.5");
  EXPECT_EQ(shown("true"), "4:TRUE");
}

}  // namespace
}  // namespace msprobe::analysis::config_check
