#include "src/json/document.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace msprobe::json {
namespace {

using Json = nlohmann::ordered_json;

TEST(DocumentText, IsSpelledAsTheWriterSpells) {
  const Json document = {{"z", 1},
                         {"a", {{"x", 1e-5}, {"y", 1e16}, {"one", 1.0}}},
                         {"list", Json::array({true, nullptr, "t\u00e9\n", -0.0, 0.1})},
                         {"none", Json::array()},
                         {"empty", Json::object()}};
  EXPECT_EQ(DocumentText(document, -1, Writer::NonFinite::kPython),
            R"({"z": 1, "a": {"x": 1e-05, "y": 1e+16, "one": 1.0}, )"
            R"("list": [true, null, "t\u00e9\n", -0.0, 0.1], "none": [], "empty": {}})");
  EXPECT_EQ(DocumentText({{"b", {1, 2}}, {"a", 0}}, 1, Writer::NonFinite::kPython),
            "{\n \"b\": [\n  1,\n  2\n ],\n \"a\": 0\n}");
}

TEST(DocumentText, KeepsIntegersOf64Bits) {
  const Json document = Json::array({INT64_MIN, INT64_MAX, uint64_t{7}, size_t{8}});
  EXPECT_EQ(DocumentText(document, -1, Writer::NonFinite::kNull),
            "[-9223372036854775808, 9223372036854775807, 7, 8]");
}

TEST(DocumentText, SpellsNonFiniteNumbersAsAsked) {
  const Json document = Json::array({std::nan(""), HUGE_VAL, -HUGE_VAL});
  EXPECT_EQ(DocumentText(document, -1, Writer::NonFinite::kPython), "[NaN, Infinity, -Infinity]");
  EXPECT_EQ(DocumentText(document, -1, Writer::NonFinite::kNull), "[null, null, null]");
  EXPECT_EQ(DocumentText(document, -1, Writer::NonFinite::kText),
            R"(["NaN", "Infinity", "-Infinity"])");
}

TEST(DocumentText, TakesBytesThatAreNoUtf8) {
  const Json document = Json::array({"\xFF", "a\xED\xA0\x80"});
  EXPECT_EQ(DocumentText(document, -1, Writer::NonFinite::kText), R"(["\ufffd", "a\ufffd"])");
  EXPECT_EQ(DocumentText(document, -1, Writer::NonFinite::kPython), R"(["\udcff", "a\ud800"])");
}

TEST(WriteDocument, StandsInsideOfALargerText) {
  std::string text;
  Writer writer(text, 1);
  writer.BeginObject();
  writer.Key("part");
  WriteDocument({{"a", 1}}, writer);
  WriteMembers({{"b", 2}, {"c", NumberOrNull(std::nullopt)}, {"d", NumberOrNull(3)}}, writer);
  writer.EndObject();
  EXPECT_EQ(text, "{\n \"part\": {\n  \"a\": 1\n },\n \"b\": 2,\n \"c\": null,\n \"d\": 3\n}");
}

}  // namespace
}  // namespace msprobe::json
