#include "src/analysis/perf/name_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe::analysis::perf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::map<std::string, std::string> Read(std::string_view text) {
  Result<std::map<std::string, std::string>> names = ParseNameMap(text);
  EXPECT_TRUE(names.ok()) << text << ": " << names.status().message();
  return names.ok() ? *std::move(names) : std::map<std::string, std::string>();
}

TEST(NameMap, IsADictAsPythonWritesIt) {
  EXPECT_THAT(Read("{'aten::mm': 'npu::mm', \"a\":\"b\"}"),
              ElementsAre(Pair("a", "b"), Pair("aten::mm", "npu::mm")));
  EXPECT_THAT(Read("{}"), IsEmpty());
  EXPECT_THAT(Read(" {\n 'a' : 'b' ,\n} \n"), ElementsAre(Pair("a", "b")));
}

TEST(NameMap, QuotesOfTheOtherKindAndEscapesBelongToTheName) {
  EXPECT_THAT(Read(R"({'say "x"': "it's", 'a\'b\\': 'c\n\t'})"),
              ElementsAre(Pair("a'b\\", "c\n\t"), Pair("say \"x\"", "it's")));
}

TEST(NameMap, OfEqualKeysTheLastCounts) {
  EXPECT_THAT(Read("{'a': 'first', 'a': 'last'}"), ElementsAre(Pair("a", "last")));
}

TEST(NameMap, NamesThePlaceThatIsWrong) {
  const auto wrong = [](std::string_view text, const char* why) {
    const auto names = ParseNameMap(text);
    ASSERT_FALSE(names.ok()) << text;
    EXPECT_EQ(names.status().code(), StatusCode::kUsage) << text;
    EXPECT_THAT(names.status().message(), HasSubstr(why)) << text;
  };
  wrong("", "character 1: it does not begin with {");
  wrong("['a']", "does not begin with {");
  wrong("{", "character 2 does not start one");
  wrong("{'a'", "a ':' is missing");
  wrong("{'a' 'b'}", "character 6: a ':' is missing");
  wrong("{'a': 'b' 'c': 'd'}", "a ',' or '}' is missing");
  wrong("{'a': 'b'} + {}", "unexpected text after the }");
  wrong("{'a': 'b}", "unterminated string");
  wrong("{'a': 'b\\", "escape is not known");
  wrong("{'a': '\\x41'}", "escape is not known");
  wrong("{'a': 1}", "must be quoted strings");
  wrong("{'a': None}", "must be quoted strings");
  wrong("{'a': __import__('os')}", "must be quoted strings");
  wrong("{,}", "must be quoted strings");
}

TEST(NameMap, NamesHaveAtMostTwoHundredCharacters) {
  const std::string most(200, 'x');
  EXPECT_THAT(Read("{'" + most + "': 'a'}"), ElementsAre(Pair(most, "a")));
  const auto longer = ParseNameMap("{'a': '" + most + "x'}");
  ASSERT_FALSE(longer.ok());
  EXPECT_THAT(longer.status().message(), HasSubstr("201 characters"));
  // Characters, not bytes.
  std::string wide;
  for (int i = 0; i < 200; ++i) {
    wide += "\u7b97";
  }
  EXPECT_THAT(Read("{'a': '" + wide + "'}"), ElementsAre(Pair("a", wide)));
}

}  // namespace
}  // namespace msprobe::analysis::perf
