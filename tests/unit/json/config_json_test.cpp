#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/json/config.h"

namespace msprobe::json {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Config Parse(std::string_view text) {
  Result<Config> config = ParseJsonConfig(text, "a.json");
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *std::move(config) : Config();
}

std::string ErrorOf(std::string_view text) {
  const Result<Config> config = ParseJsonConfig(text, "a.json");
  return config.ok() ? "no error" : config.status().message();
}

TEST(JsonConfig, KeepsKindsOrderAndLines) {
  const Config config =
      Parse("{\n\"b\": [1, 2.5,\n null],\n\n\"a\": {\"x\": true}, \"t\": \"\\u4f60\"}");
  ASSERT_EQ(config.root().size(), 3U);
  EXPECT_EQ(config.root().begin().key(), "b");
  EXPECT_EQ(std::next(config.root().begin()).key(), "a");
  const Json& list = config.root().at("b");
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(IntOf(list[0]), 1);
  EXPECT_EQ(NumberOf(list[0]), 1.0);
  EXPECT_TRUE(list[1].is_number_float());
  EXPECT_TRUE(list[2].is_null());
  EXPECT_EQ(config.LineOf(list[2]), 3);
  EXPECT_EQ(config.LineOf(list), 2);
  EXPECT_EQ(config.LineOf(config.root().at("a")), 5);
  EXPECT_TRUE(BoolOf(config.root().at("a").at("x")));
  EXPECT_EQ(TextOf(config.root().at("t")), "\u4f60");
  EXPECT_EQ(Find(config.root(), "none"), nullptr);
}

TEST(JsonConfig, AllowsCommentsAndTrailingCommas) {
  const Config config =
      Parse("// head\n{\"a\": 1, /* in\n between */ \"b\": [1, 2,], // tail\n}\n");
  EXPECT_EQ(config.root().at("b").size(), 2U);
  EXPECT_EQ(config.LineOf(config.root().at("b")), 3);
}

TEST(JsonConfig, NamesFileLineAndColumnOfASyntaxError) {
  EXPECT_THAT(ErrorOf("{\n\"a\": 1\n\"b\": 2}"), HasSubstr("a.json: line 3 column 1"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("empty"));
  EXPECT_THAT(ErrorOf("{\"a\": [1, 2"), HasSubstr("ends too early"));
}

TEST(JsonConfig, RefusesDuplicateKeysWithBothLines) {
  const std::string error = ErrorOf("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}");
  EXPECT_THAT(error, HasSubstr("line 3: key \"a\": already given on line 1"));
}

TEST(JsonConfig, RefusesDeepNesting) {
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("nested levels"));
  EXPECT_THAT(ErrorOf(std::string(101, '[') + std::string(101, ']')), HasSubstr("nested levels"));
  EXPECT_EQ(ErrorOf(std::string(100, '[') + std::string(100, ']')), "no error");
}

TEST(JsonConfig, NestsWithoutRecursion) {
  const size_t depth = 2'000'000;
  EXPECT_EQ(ErrorOf(std::string(depth, '[')),
            "a.json: line 1 column 101 (byte 100): more than 100 nested levels");
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) {
    objects += "{\"a\":\n";
  }
  EXPECT_EQ(ErrorOf(objects), "a.json: line 101 column 1 (byte 600): more than 100 nested levels");
  EXPECT_THAT(ErrorOf(std::string(depth, ']')), HasSubstr("expected a value"));
}

TEST(JsonConfig, CountsLinesBehindCommentsAndLineBreaksOfEveryKind) {
  const Config config = Parse(
      "\xEF\xBB\xBF{\r\n\"a\": 1,\r\n/* one\n * two\r\n */ \"b\": -2.5\n,// three\n\"c\": "
      "\"x\\ny\", "
      "\"d\": [\n\n\"e\"\n], \"f\": null}");
  EXPECT_EQ(config.LineOf(config.root()), 1);
  EXPECT_EQ(config.LineOf(config.root().at("a")), 2);
  EXPECT_EQ(config.LineOf(config.root().at("b")), 5);
  EXPECT_EQ(NumberOf(config.root().at("b")), -2.5);
  EXPECT_EQ(config.LineOf(config.root().at("c")), 7);
  EXPECT_EQ(TextOf(config.root().at("c")), "x\ny");
  EXPECT_EQ(config.LineOf(config.root().at("d")), 7);
  EXPECT_EQ(config.LineOf(config.root().at("d")[0]), 9);
  EXPECT_EQ(config.LineOf(config.root().at("f")), 10);
}

TEST(JsonConfig, CountsTheLineOfANumberAtTheEndOfItsLine) {
  const Config config = Parse("{\"a\": 1\n, \"b\": 2.5\n, \"c\": 18446744073709551615\n\n}");
  EXPECT_EQ(config.LineOf(config.root().at("a")), 1);
  EXPECT_EQ(config.LineOf(config.root().at("b")), 2);
  EXPECT_EQ(config.LineOf(config.root().at("c")), 3);
  const Config first = Parse("1");
  EXPECT_EQ(first.LineOf(first.root()), 1);
  const Config third = Parse("\n\n2.5");
  EXPECT_EQ(third.LineOf(third.root()), 3);
}

TEST(JsonConfig, KeepsWhatANumberIs) {
  const auto number = [](std::string_view text) { return Parse(text).root(); };
  EXPECT_EQ(number("-0").type(), Json::value_t::number_integer);
  EXPECT_EQ(IntOf(number("-0")), 0);
  EXPECT_EQ(IntOf(number("9223372036854775807")), INT64_MAX);
  EXPECT_EQ(IntOf(number("-9223372036854775808")), INT64_MIN);
  for (const char* digits : {"9223372036854775808", "18446744073709551615", "18446744073709551616",
                             "-9223372036854775809", "123456789012345678901234567890", "1.50",
                             "-0.0", "1e-400", "1E+5", "0.1000000000000000055511151231257827",
                             "1.7976931348623157e308", "NaN", "Infinity", "-Infinity"}) {
    for (const std::string& text : {std::string(digits), "\n " + std::string(digits) + " ",
                                    "/*1*/" + std::string(digits) + "//2"}) {
      const Config value = Parse(text);
      EXPECT_TRUE(value.root().is_number_float()) << text;
      EXPECT_EQ(value.SpellingOf(value.root()), digits);
    }
    const Config list = Parse("[" + std::string(digits) + "," + std::string(digits) + ",]");
    ASSERT_EQ(list.root().size(), 2U);
    EXPECT_EQ(list.SpellingOf(list.root()[1]), digits);
  }
  EXPECT_EQ(NumberOf(number("18446744073709551615")), 18446744073709551615.0);
  EXPECT_TRUE(std::isnan(NumberOf(number("NaN"))));
  EXPECT_EQ(NumberOf(number("-Infinity")), -HUGE_VAL);
  EXPECT_TRUE(std::signbit(NumberOf(number("-0.0"))));
  EXPECT_EQ(NumberOf(number("1e-400")), 0.0);
}

TEST(JsonConfig, RefusesNumbersBeyondADouble) {
  EXPECT_EQ(ErrorOf("{\n \"a\": 1e999\n}"),
            "a.json: line 2 column 7 (byte 8): a number is too large");
  EXPECT_EQ(ErrorOf("[-1e999999999999999999999]"),
            "a.json: line 1 column 2 (byte 1): a number is too large");
  EXPECT_EQ(ErrorOf(std::string(400, '9')),
            "a.json: line 1 column 1 (byte 0): a number is too large");
}

TEST(JsonConfig, SaysWhatWasExpectedWhere) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"a\" 1}", "line 1 column 6 (byte 5): expected ':' after a key"},
      {"{\"a\"}", "line 1 column 5 (byte 4): expected ':' after a key"},
      {"{\"a\": 1 \"b\": 2}", "line 1 column 9 (byte 8): expected ',' or '}'"},
      {"{\"a\": [] \"b\\\"c\": 2}", "line 1 column 10 (byte 9): expected ',' or '}'"},
      {"{\"a\": 1]", "line 1 column 8 (byte 7): expected ',' or '}'"},
      {"{a: 1}", "line 1 column 2 (byte 1): expected a key in double quotes"},
      {"{\"a\": 1,\n 'b': 2}", "line 2 column 2 (byte 10): expected a key in double quotes"},
      {"{\"a\": 1,,}", "line 1 column 9 (byte 8): expected a key in double quotes"},
      {"{\"a\":}", "line 1 column 6 (byte 5): expected a value"},
      {"{\"a\": tru}", "line 1 column 7 (byte 6): expected a value"},
      {"[,]", "line 1 column 2 (byte 1): expected a value"},
      {"[}", "line 1 column 2 (byte 1): expected a value"},
      {"[True]", "line 1 column 2 (byte 1): expected a value"},
      {"[1 23]", "line 1 column 4 (byte 3): expected ',' or ']'"},
      {"[1 yes]", "line 1 column 4 (byte 3): expected ',' or ']'"},
      {"[1]\n[2]", "line 2 column 1 (byte 4): more text follows the end of the document"},
      {"[1 /* 2]", "line 1 column 4 (byte 3): a comment begins with // or /* and ends with */"},
      {" \n// nothing\n", "line 3 column 1 (byte 13): the document is empty"},
      {"\xEF\xBB\xBF ", "line 1 column 5 (byte 4): the document is empty"},
      {"{\"a\": [1, 2", "(byte 11): the document ends too early (expected ',' or ']')"},
      {"{\"a\": tr", "byte 8): the document ends too early (expected a value)"},
      {"[1.", "byte 3): the document ends too early (a digit must follow the decimal point)"},
      {"[\"a", "byte 3): the document ends too early (a text has no closing quote)"},
      {"[1.x]", "line 1 column 4 (byte 3): a digit must follow the decimal point"},
      {"[\"a\nb\"]",
       "line 1 column 4 (byte 3): a text holds an unknown escape or a raw control character"},
      {"[\"a\", \"\\x\"]",
       "line 1 column 8 (byte 7): a text holds an unknown escape or a raw control character"},
  };
  for (const auto& [text, error] : cases) {
    EXPECT_THAT(ErrorOf(text), HasSubstr(error)) << text;
  }
}

TEST(JsonConfig, RefusesNulBytes) {
  EXPECT_THAT(ErrorOf(std::string_view("[1]\0[2]", 7)),
              HasSubstr("(byte 3): more text follows the end of the document"));
  EXPECT_THAT(ErrorOf(std::string_view("[1,\0 2]", 7)), HasSubstr("(byte 3): expected a value"));
  EXPECT_THAT(ErrorOf(std::string_view("[\"a\0\"]", 6)),
              HasSubstr("(byte 3): a text has no closing quote"));
  EXPECT_THAT(ErrorOf(std::string_view("\0", 1)), HasSubstr("expected a value"));
}

TEST(JsonConfig, RefusesTextsThatAreNoUtf8) {
  EXPECT_EQ(ErrorOf("{\"p\":\n\"/tmp/\xFF\"}"),
            "a.json: line 2 column 7 (byte 12): invalid string: ill-formed UTF-8 byte");
  EXPECT_THAT(ErrorOf("[\"\xED\xA0\x80\"]"), HasSubstr("ill-formed UTF-8 byte"));
  EXPECT_THAT(ErrorOf("[\"\\ud800\"]"), HasSubstr("surrogate"));
}

TEST(JsonData, TakesWhatPythonWrites) {
  const Result<Json> data = ParseJsonData("{\"a\": 1, \"a\": NaN, \"b\": \"x\\ud800y\"}", "a.json");
  ASSERT_TRUE(data.ok()) << data.status().message();
  ASSERT_EQ(data->size(), 2U);
  EXPECT_TRUE(std::isnan(NumberOf(data->at("a"))));
  EXPECT_EQ(TextOf(data->at("b")), "x\uFFFDy");
}

TEST(JsonData, ReplacesHalfSurrogatePairs) {
  const Result<Json> data =
      ParseJsonData(R"(["\ud800", "\udc00\ud83d\ude00", "\\ud800", "\u00e9"])", "a.json");
  ASSERT_TRUE(data.ok()) << data.status().message();
  const std::vector<std::string> texts = {"\uFFFD", "\uFFFD\U0001F600", "\\ud800", "\u00e9"};
  EXPECT_EQ(*data, Json(texts));
  EXPECT_THAT(ErrorOf(R"(["\udc00"])"), HasSubstr("surrogate"));
}

TEST(JsonData, KeepsTheDigitsOfIntegersBeyond64Bits) {
  const Result<Json> data = ParseJsonData("[9223372036854775808, -1, 1.5]", "a.json");
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_TRUE(IsBigInteger((*data)[0]));
  EXPECT_EQ(NumberOf((*data)[0]), 9223372036854775808.0);
  EXPECT_EQ(DocumentText(*data, -1, Writer::NonFinite::kPython), "[9223372036854775808, -1, 1.5]");
}

TEST(JsonConfig, KnowsNonFiniteNumbersByTheirFullNamesOnly) {
  EXPECT_THAT(ErrorOf("[Nan]"), HasSubstr("expected a value"));
  EXPECT_THAT(ErrorOf("[inf]"), HasSubstr("expected a value"));
  EXPECT_THAT(ErrorOf("[-Inf]"), HasSubstr("expected a value"));
}

TEST(JsonConfig, GivesTypedMembersOrTheirFallbacks) {
  const Config config = Parse(R"({"t": "x", "b": true, "n": null, "i": [1, 2], "l": ["a", "b"]})");
  EXPECT_EQ(*config.Text(config.root(), "t", "y"), "x");
  EXPECT_EQ(*config.Text(config.root(), "n", "y"), "y");
  EXPECT_EQ(*config.Text(config.root(), "absent", "y"), "y");
  EXPECT_EQ(*config.RequiredText(config.root(), "t"), "x");
  EXPECT_TRUE(*config.Bool(config.root(), "b", false));
  EXPECT_TRUE(*config.Bool(config.root(), "absent", true));
  EXPECT_THAT(*config.IntList(config.root(), "i"), ElementsAre(1, 2));
  EXPECT_THAT(*config.TextList(config.root(), "l"), ElementsAre("a", "b"));
  EXPECT_TRUE(config.TextList(config.root(), "absent")->empty());
}

TEST(JsonConfig, SaysWhichKindAMemberMustHave) {
  const Config config = Parse("{\n\"t\": [1],\n\"b\": \"yes\",\n\"l\": [\"a\",\n3]}");
  EXPECT_EQ(config.Text(config.root(), "t", "").status().message(),
            "a.json line 2: key \"t\": must be text, not a list");
  EXPECT_EQ(config.Bool(config.root(), "b", false).status().message(),
            "a.json line 3: key \"b\": must be true or false, not text");
  EXPECT_EQ(config.TextList(config.root(), "l").status().message(),
            "a.json line 5: key \"l\": every item must be text, not an integer");
  EXPECT_EQ(config.IntList(config.root(), "l").status().message(),
            "a.json line 4: key \"l\": every item must be an integer, not text");
  EXPECT_EQ(config.RequiredText(config.root(), "npu_path").status().message(),
            "a.json line 1: key \"npu_path\": is missing");
  EXPECT_EQ(config.RequiredText(config.root(), "npu_path").status().code(), StatusCode::kUsage);
}

TEST(JsonConfig, SuggestsTheNearestValidKey) {
  const Config config = Parse("{\"npu_path\": \"a\",\n\"bench_pth\": \"b\"}");
  const std::vector<std::string> valid = {"npu_path", "bench_path", "stack_path"};
  const Status status = config.CheckKeys(config.root(), valid);
  EXPECT_EQ(status.message(), "a.json line 2: key \"bench_pth\": no such key");
  EXPECT_EQ(status.hint(), "did you mean \"bench_path\"?");
  EXPECT_TRUE(Parse("{\"npu_path\": 1}").CheckKeys(config.root().at("npu_path"), valid).ok());
}

TEST(JsonConfig, ListsTheValidKeysWhenNoneIsNear) {
  const Config config = Parse("{\"zzzzzzzz\": 1}");
  const std::vector<std::string> valid = {"npu_path", "bench_path"};
  EXPECT_EQ(config.CheckKeys(config.root(), valid).hint(), "valid keys: npu_path, bench_path");
}

std::string WithOn(std::string_view text) {
  const Result<std::string> changed = WithFlag(text, "a.json", "on", true);
  return changed.ok() ? *changed : changed.status().message();
}

TEST(JsonConfig, SetsAFlagAndChangesNothingElse) {
  EXPECT_EQ(WithOn(R"({"a": [1, {"on": false}], "on":false})"),
            R"({"a": [1, {"on": false}], "on":true})");
  EXPECT_EQ(WithOn("{ // {\n\"on\" : null /* false */,}\n"),
            "{ // {\n\"on\" : true /* false */,}\n");
  EXPECT_EQ(WithOn(R"({"on": true})"), R"({"on": true})");
  EXPECT_EQ(WithOn("\xEF\xBB\xBF{\"on\":false}"), "\xEF\xBB\xBF{\"on\":true}");
  EXPECT_EQ(WithOn(R"({"o\u006e": false})"), R"({"o\u006e": true})");
}

TEST(JsonConfig, AddsAFlagAsTheFirstMember) {
  EXPECT_EQ(WithOn("{}"), R"({"on": true})");
  EXPECT_EQ(WithOn("// {\n{\n}"), "// {\n{\"on\": true\n}");
  EXPECT_EQ(WithOn(R"({"a": 1})"), R"({"on": true, "a": 1})");
  EXPECT_EQ(WithOn("{\n\t\"a\": 1\n}"), "{\n\t\"on\": true,\n\t\"a\": 1\n}");
  EXPECT_EQ(WithOn("{ // first\n  \"a\": 1}"), "{ \"on\": true, // first\n  \"a\": 1}");
}

TEST(JsonConfig, SetsNoFlagWhereNoneCanBe) {
  EXPECT_EQ(WithOn("[]"), "a.json line 1: must be an object, not a list");
  EXPECT_THAT(WithOn(R"({"on": 1})"), HasSubstr("must be true or false, not an integer"));
  EXPECT_THAT(WithOn(R"({"on": )"), HasSubstr("a.json"));
}

TEST(JsonConfig, LoadsFilesAndNamesTheMissingOne) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "config_json_test.json";
  std::filesystem::remove(path);  // of an earlier run
  ASSERT_TRUE(base::WriteFileAtomically(path, "{\"a\": 1}").ok());
  const Result<Config> config = LoadJsonConfig(path);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->file, path.string());
  EXPECT_EQ(LoadJsonConfig("/nonexistent.json").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace msprobe::json
