#include <cmath>
#include <iterator>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "src/json/config.h"

namespace msprobe::json {
namespace {

using ::testing::HasSubstr;

Config ParseYaml(std::string_view text) {
  Result<Config> config = ParseYamlConfig(text, "a.yaml");
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *std::move(config) : Config();
}

std::string YamlErrorOf(std::string_view text) {
  const Result<Config> config = ParseYamlConfig(text, "a.yaml");
  return config.ok() ? "no error" : config.status().message();
}

Json Scalar(std::string_view text) { return ParseYaml(fmt::format("k: {}", text)).root().at("k"); }

std::string Spelled(std::string_view text) {
  const Config config = ParseYaml(fmt::format("k: {}", text));
  return std::string(config.SpellingOf(config.root().at("k")));
}

TEST(YamlConfig, KeepsOrderAndLines) {
  const Config config = ParseYaml("b: 1\na:\n  - x\n  - {y: z}\n");
  ASSERT_EQ(config.root().size(), 2U);
  EXPECT_EQ(config.root().begin().key(), "b");
  const Json& list = config.root().at("a");
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(TextOf(list[0]), "x");
  EXPECT_EQ(config.LineOf(list[0]), 3);
  EXPECT_EQ(TextOf(list[1].at("y")), "z");
}

TEST(YamlConfig, TypesPlainScalarsByYaml11) {
  for (const char* text : {"null", "Null", "NULL", "~", ""}) {
    EXPECT_TRUE(Scalar(text).is_null()) << text;
  }
  for (const char* text : {"true", "True", "TRUE", "yes", "Yes", "on", "ON"}) {
    EXPECT_TRUE(Scalar(text).is_boolean()) << text;
    EXPECT_TRUE(BoolOf(Scalar(text))) << text;
  }
  for (const char* text : {"false", "False", "no", "NO", "off"}) {
    EXPECT_TRUE(Scalar(text).is_boolean()) << text;
    EXPECT_FALSE(BoolOf(Scalar(text))) << text;
  }
  for (const char* text : {"tRUE", "nULL", "y", "1.2.3", "1e5", "0x", "_1", "08", ".", "..",
                           "Functional.conv2d.1", "a b"}) {
    EXPECT_TRUE(Scalar(text).is_string()) << text;
    EXPECT_EQ(Spelled(text), text);
  }
}

TEST(YamlConfig, ReadsIntegersInEveryBase) {
  EXPECT_EQ(IntOf(Scalar("12")), 12);
  EXPECT_EQ(IntOf(Scalar("-1_000")), -1000);
  EXPECT_EQ(IntOf(Scalar("+7")), 7);
  EXPECT_EQ(IntOf(Scalar("017")), 15);
  EXPECT_EQ(IntOf(Scalar("0x1F")), 31);
  EXPECT_EQ(IntOf(Scalar("0b101")), 5);
  EXPECT_EQ(IntOf(Scalar("0")), 0);
  EXPECT_TRUE(Scalar("-9223372036854775808").is_number_integer());
  EXPECT_TRUE(Scalar("9223372036854775808").is_number_float());
  EXPECT_EQ(NumberOf(Scalar("9223372036854775808")), 9223372036854775808.0);
}

TEST(YamlConfig, ReadsFloats) {
  EXPECT_EQ(NumberOf(Scalar("2.5")), 2.5);
  EXPECT_EQ(NumberOf(Scalar("-.5")), -0.5);
  EXPECT_EQ(NumberOf(Scalar("1.5e+3")), 1500.0);
  EXPECT_EQ(NumberOf(Scalar("3.")), 3.0);
  EXPECT_EQ(NumberOf(Scalar("-.inf")), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(NumberOf(Scalar(".nan"))));
  EXPECT_EQ(Spelled("2.50"), "2.50");
}

TEST(YamlConfig, LeavesQuotedAndTaggedTextAlone) {
  for (const char* text : {"'1'", "\"1\"", "!!str 1", "|\n  1"}) {
    EXPECT_TRUE(Scalar(text).is_string()) << text;
  }
  EXPECT_EQ(IntOf(Scalar("!!int 5")), 5);
  EXPECT_THAT(YamlErrorOf("a: !!python/object:os.system x"), HasSubstr("line 1: tag"));
  EXPECT_THAT(YamlErrorOf("a: !mine x"), HasSubstr("not supported"));
}

TEST(YamlConfig, TreatsKeysAsTextWhateverTheyLookLike) {
  EXPECT_EQ(std::next(ParseYaml("1: a\nyes: b").root().begin()).key(), "yes");
  EXPECT_THAT(YamlErrorOf("? [a, b]\n: c"), HasSubstr("a key must be text"));
}

TEST(YamlConfig, CopiesWhatAnAliasNames) {
  const Config config = ParseYaml("a: &x {k: [1, 2]}\nb: *x\n");
  EXPECT_EQ(config.root().at("b").at("k").size(), 2U);
}

TEST(YamlConfig, RefusesAliasesThatBlowUp) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i,
                        i - 1);
  }
  // Refused before the copies take memory: a small document is enough to see it.
  EXPECT_THAT(YamlErrorOf(bomb), HasSubstr("aliases come to more than 100000 values"));
  EXPECT_THAT(YamlErrorOf("a: &a [*a]"),
              HasSubstr("line 1: an alias refers to a node that contains it"));
}

TEST(YamlConfig, RefusesAliasesThatRepeatTooMuchText) {
  const std::string text = "a: &a \"" + std::string(1 << 20, 'x') + "\"\n";
  const auto list_of = [](int aliases) {
    std::string list = "b: [*a";
    for (int i = 1; i < aliases; ++i) {
      list += ", *a";
    }
    return list + "]\n";
  };
  const char* refused = "line 2: its anchors and aliases repeat more than 67108864 bytes";
  // One copy is the anchor's own.
  EXPECT_EQ(ParseYaml(text + list_of(63)).root().at("b").size(), 63U);
  EXPECT_THAT(YamlErrorOf(text + list_of(64)), HasSubstr(refused));
  // As keys and as parts of other anchors, too.
  std::string keys = text + "b: [";
  std::string levels = text + "b: ";
  for (int i = 0; i < 64; ++i) {
    keys += "{*a : 1}, ";
    levels += fmt::format("&b{} [", i);
  }
  EXPECT_THAT(YamlErrorOf(keys + "]\n"), HasSubstr(refused));
  EXPECT_THAT(YamlErrorOf(levels + "*a" + std::string(64, ']')), HasSubstr(refused));
}

TEST(YamlConfig, RefusesDeepNestingInEveryStyle) {
  EXPECT_THAT(YamlErrorOf(std::string(100000, '[')), HasSubstr("a.yaml"));
  EXPECT_THAT(YamlErrorOf(std::string(101, '[') + std::string(101, ']')),
              HasSubstr("nested levels"));
  std::string chain = "a0: &a0 [1]\n";
  for (int i = 1; i < 200; ++i) {
    chain += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  }
  EXPECT_THAT(YamlErrorOf(chain), HasSubstr("nested levels"));
}

TEST(YamlConfig, NamesFileAndLineOfAnError) {
  EXPECT_THAT(YamlErrorOf("a: 1\nb: [1, 2\nc: 3"), HasSubstr("a.yaml: line "));
  EXPECT_THAT(YamlErrorOf("a: 1\nb: 2\na: 3"),
              HasSubstr("line 3: key \"a\": already given on line 1"));
  EXPECT_THAT(YamlErrorOf("a: 1\n---\nb: 2"), HasSubstr("more than one document"));
  EXPECT_THAT(YamlErrorOf("a: *nobody"), HasSubstr("line 1"));
}

TEST(YamlConfig, TakesAnEmptyDocumentAsNull) {
  EXPECT_TRUE(ParseYaml("").root().is_null());
  EXPECT_TRUE(ParseYaml("# nothing\n").root().is_null());
}

}  // namespace
}  // namespace msprobe::json
