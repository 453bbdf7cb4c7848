// What TOML becomes in the tree of a configuration, and what is refused.
#include "src/json/config_toml.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace msprobe::json {
namespace {

using testing::HasSubstr;

std::string TomlErrorOf(const std::string& text) {
  const Result<Config> config = ParseTomlConfig(text, "a.toml");
  return config.ok() ? "" : config.status().message();
}

TEST(ConfigToml, TablesListsAndScalarsKeepTheirLines) {
  const Result<Config> config = ParseTomlConfig(
      "output = \"results\"  # a comment\n"
      "threads = 4\n"
      "[monitor.diff]\n"
      "rtol = 0.5\n"
      "force = true\n"
      "formats = [\n  'csv',\n  'html',\n]\n",
      "a.toml");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const Json& root = (*config).root();
  EXPECT_EQ(TextOf(Member(root, "output")), "results");
  EXPECT_EQ(IntOf(Member(root, "threads")), 4);
  EXPECT_EQ((*config).LineOf(Member(root, "threads")), 2);
  const Json& diff = Member(Member(root, "monitor"), "diff");
  EXPECT_EQ(NumberOf(Member(diff, "rtol")), 0.5);
  EXPECT_TRUE(BoolOf(Member(diff, "force")));
  ASSERT_EQ(ItemsOf(Member(diff, "formats")).size(), 2u);
  EXPECT_EQ(TextOf(ItemsOf(Member(diff, "formats"))[1]), "html");
  EXPECT_EQ((*config).LineOf(ItemsOf(Member(diff, "formats"))[1]), 8);
}

TEST(ConfigToml, AnEmptyFileIsAnEmptyObject) {
  const Result<Config> config = ParseTomlConfig("", "a.toml");
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE((*config).root().is_object());
  EXPECT_TRUE((*config).root().empty());
}

TEST(ConfigToml, MistakesAreNamedWithTheirLine) {
  EXPECT_THAT(TomlErrorOf("a = 1\nb = \n"), HasSubstr("a.toml line 2: "));
  EXPECT_THAT(TomlErrorOf("a = 1\na = 2\n"), HasSubstr("a.toml line 2: "));
  EXPECT_THAT(TomlErrorOf("a = \"open\n"), HasSubstr("line 1"));
  EXPECT_THAT(TomlErrorOf("a = 1979-05-27\n"), HasSubstr("dates and times"));
  EXPECT_THAT(TomlErrorOf("a = \"\xff\"\n"), HasSubstr("a.toml line 1"));
}

TEST(ConfigToml, BrokenFilesThatTheLibraryAssumesAwayAreErrors) {
  EXPECT_THAT(TomlErrorOf(std::string("[\0dump]\n", 8)), HasSubstr("line 1: a control character"));
  for (const char* text : {"[\x7f"
                           "dump]\n",
                           "[=]\n", "[ #\n", "[[,]]\n", "{a=1}\n", "= 1\n", "[\xc2\xa0]\n",
                           "a = {=1}\n", "a = {,}\n", "a. = 1\n", "[a.]\n", "a = [", "[", "[["}) {
    EXPECT_NE(TomlErrorOf(text), "") << text;
  }
}

TEST(ConfigToml, DepthIsLimitedHoweverItIsWritten) {
  EXPECT_THAT(TomlErrorOf("a = " + std::string(100'000, '[')), HasSubstr("line 1"));
  std::string dotted = "a";
  for (int i = 0; i < 50'000; ++i) {
    dotted += ".a";
  }
  EXPECT_THAT(TomlErrorOf(dotted + " = 1\n"), HasSubstr("more than 200 dots"));
  EXPECT_THAT(TomlErrorOf("[" + dotted + "]\n"), HasSubstr("more than 200 dots"));
  std::string header = "a";
  for (int i = 0; i < 150; ++i) {
    header += ".a";
  }
  EXPECT_NE(TomlErrorOf("[" + header + "]\n" + header + " = 1\n"), "");
}

}  // namespace
}  // namespace msprobe::json
