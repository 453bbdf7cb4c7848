#include "src/analysis/config_check/printed_config.h"

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/strings.h"
#include "src/json/document.h"

namespace msprobe::analysis::config_check {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The literal as JSON; "" when it does not end.
std::string Literal(std::string_view text) {
  internal::LiteralLines literal;
  for (const std::string_view line : base::Split(text, '\n')) {
    literal.Feed(line);
  }
  return literal.done() ? literal.json() : "";
}

std::string Config(std::string_view log) {
  const Result<PrintedConfig> config = FindPrintedConfig(log, "a.log");
  return config.ok() ? json::DocumentText((*config).tree, -1, json::Writer::NonFinite::kPython)
                     : config.status().message();
}

TEST(LiteralLines, TakesPythonAndJsonAlike) {
  EXPECT_EQ(Literal(R"({'a': None, "b": true, 'c': [1, 2.50, -3e-06], 'd': {}, 'e': ()})"),
            R"({"a": null, "b": true, "c": [1, 2.5, -3e-06], "d": {}, "e": []})");
  EXPECT_EQ(Literal("{'a': (1,), 'b': ('x'), 'c': inf, 1: 1_000}"),
            R"({"a": [1], "b":  "x", "c": Infinity, "1": 1000})");
}

TEST(LiteralLines, JoinsAdjacentTextsAndDecodesEscapes) {
  EXPECT_EQ(Literal("{'a': 'one '\n      'two',\n 'b': 'it\\'s \\u00e9 \\x41\\n'}"),
            R"({"a": "one two", "b": "it's \u00e9 A\n"})");
  EXPECT_EQ(Literal("{'a': ('one '\n       'two')}"), R"({"a":  "one two"})");
}

TEST(LiteralLines, KeepsWhatIsNoLiteralAsText) {
  EXPECT_EQ(Literal("{'a': torch.bfloat16, 'b': PosixPath('/x,y'), 'c': <Mode.A: 1>}"),
            R"j({"a": "torch.bfloat16", "b": "PosixPath('/x,y')", "c": "<Mode.A: 1>"})j");
  EXPECT_EQ(Literal("Namespace(lr=1e-06, name='x', inner=Namespace(k=[1]))"),
            R"({"lr": 1e-06, "name": "x", "inner": {"k": [1]}})");
}

TEST(LiteralLines, LeavesLinesOfOthersOut) {
  EXPECT_EQ(Literal("{'a': 1,\nINFO 05-01 engine started\n 'b': [1,\n step:1 - loss:0.5\n  2],\n"
                    "Traceback (most recent call last):\n 'c': 3}"),
            R"({"a": 1, "b": [1, 2], "c": 3})");
}

TEST(LiteralLines, CutsWhatIsWrittenBehindAComma) {
  EXPECT_EQ(Literal("{'a': 1, [36m(Other) hello\n 'b': 2}"), R"({"a": 1, "b": 2})");
}

TEST(LiteralLines, DoesNotEndBeforeItsBracket) {
  EXPECT_EQ(Literal("{'a': 1,\n 'b': {'c': 2}"), "");
  EXPECT_EQ(Literal("{'a': [1}\n"), "");
  EXPECT_EQ(Literal(std::string(5000, '{')), "");
}

TEST(PrintedConfig, IsTheLastOneOfTheLog) {
  const Result<PrintedConfig> config = FindPrintedConfig(
      "(Task pid=3) {'actor_rollout_ref': {'old': 1}}\n"
      "(Task pid=3) {'actor_rollout_ref': {'new': 2},\n(Task pid=3)  'x': 3}\n",
      "a.log");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(json::DocumentText((*config).tree, -1, json::Writer::NonFinite::kPython),
            R"({"actor_rollout_ref": {"new": 2}, "x": 3})");
  EXPECT_EQ((*config).line, 2U);
  EXPECT_THAT((*config).warnings, SizeIs(1));
}

TEST(PrintedConfig, LeavesLinesOfOtherActorsOut) {
  EXPECT_EQ(Config("(Task pid=3) {'actor_rollout_ref': {'a': 1},\n"
                   "(Worker pid=4)  'b': 9,\n"
                   "(Task pid=3)  'c': 2}\n"),
            R"({"actor_rollout_ref": {"a": 1}, "c": 2})");
}

TEST(PrintedConfig, TakesLinesApartThatWereWrittenIntoOne) {
  EXPECT_EQ(Config("(Task pid=3) {'actor_rollout_ref': {'a': 1},(Task pid=3)  'b': 'x',\n"
                   "(Task pid=3)  'c': 2}\n"),
            R"({"actor_rollout_ref": {"a": 1}, "b": "x", "c": 2})");
}

TEST(PrintedConfig, NeedsNoPrefix) {
  EXPECT_EQ(Config("start\n{'actor_rollout_ref': {'a': 1},\n 'b': 2}\nend\n"),
            R"({"actor_rollout_ref": {"a": 1}, "b": 2})");
  EXPECT_EQ(Config("{'actor_rollout_ref': {'a': 'x'}}"), R"({"actor_rollout_ref": {"a": "x"}})");
  // Only the first line of a log record has its head.
  EXPECT_EQ(Config("2025-01-01 10:00:00 INFO: {'actor_rollout_ref': {'a': 1},\n 'b': 2}\n"),
            R"({"actor_rollout_ref": {"a": 1}, "b": 2})");
}

TEST(PrintedConfig, LooksThroughColoursAndTimes) {
  EXPECT_EQ(
      Config("\x1b[36m(Task pid=3)\x1b[0m {'actor_rollout_ref': {'a': 1},\r\n"
             "\x1b[36m(Task pid=3)\x1b[0m  'b': 2,\x1b[32m [repeated 3x across cluster]\x1b[0m\r\n"
             "\x1b[36m(Task pid=3)\x1b[0m  'c': 3}\r\n"),
      R"({"actor_rollout_ref": {"a": 1}, "b": 2, "c": 3})");
  EXPECT_EQ(Config("2025-01-01 10:00:09,999 {'actor_rollout_ref': {'a': 1},\n"
                   "2025-01-01 10:00:10,001  'b': 2}\n"),
            R"({"actor_rollout_ref": {"a": 1}, "b": 2})");
}

TEST(PrintedConfig, IsFoundWhenItsBracketStandsAlone) {
  EXPECT_EQ(Config("x\n{\n  \"algorithm\": {\"k\": 1},\n  \"actor_rollout_ref\": {\n    \"a\": 1\n"
                   "  }\n}\n"),
            R"({"algorithm": {"k": 1}, "actor_rollout_ref": {"a": 1}})");
}

TEST(PrintedConfig, MayBeANamespaceOrAnArgumentDump) {
  EXPECT_EQ(Config("x\nNamespace(lr=0.5, model='m')\n"), R"({"lr": 0.5, "model": "m"})");
  EXPECT_EQ(Config("------------------------ arguments ------------------------\n"
                   "  adam_beta1 ...................................... 0.9\n"
                   "(Actor pid=1)   data_path ............ ['/a', '/b']\n"
                   "  name .............. my model\n"
                   "-------------------- end of arguments ---------------------\n"),
            R"({"adam_beta1": 0.9, "data_path": ["/a", "/b"], "name": "my model"})");
}

TEST(PrintedConfig, KnowsArgumentsThatAreLongerThanTheirDots) {
  const auto line = [](const std::string& name, const std::string& value) {
    return fmt::format("  {} {} {}\n", name,
                       std::string(48 - std::min<size_t>(48, name.size()), '.'), value);
  };
  const std::string names[] = {std::string(46, 'a'), std::string(47, 'b'), std::string(48, 'c'),
                               std::string(60, 'd')};
  EXPECT_EQ(Config("----- arguments -----\n" + line("lr", "1e-4") + line(names[0], "1") +
                   line(names[1], "../x") + "(Actor pid=1) " + line(names[2], "0.5") +
                   line(names[3], "") + "----- end of arguments -----\n"),
            fmt::format(R"({{"lr": 0.0001, "{}": 1, "{}": "../x", "{}": 0.5, "{}": ""}})", names[0],
                        names[1], names[2], names[3]));
}

TEST(LiteralLines, TakeALineBackWithTheTextsInFrontOfIt) {
  internal::LiteralLines literal;
  literal.Feed("{'a': 'x'");
  // Would be cut behind its comma, and then ends the text of the line above.
  EXPECT_EQ(literal.FeedWhole("'y', 'b': 1, INFO other"), internal::LiteralLines::Fed::kCut);
  EXPECT_EQ(literal.FeedWhole(": 3"), internal::LiteralLines::Fed::kIgnored);
  literal.Feed("'z', 'b': 2, INFO other");
  literal.Feed("'c': 'd'}");
  EXPECT_EQ(literal.json(), R"({"a": "xz", "b": 2, "c": "d"})");
}

TEST(PrintedConfig, MayHaveVeryManyLines) {
  constexpr int kLines = 90'000;
  std::string prefixed = "abc {'actor_rollout_ref': 1,\n";
  std::string adjacent = "{'actor_rollout_ref': \n";
  for (int i = 0; i < kLines; ++i) {
    prefixed += fmt::format("abc 'k{}': 'abc ',\n", i);
    adjacent += "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'\n";
  }
  EXPECT_THAT(Config(prefixed + "abc 'z': 2}\n"), HasSubstr(R"("k7": "abc ", "k8")"));
  EXPECT_EQ(Config(adjacent + "}\n").size(), 25U + 30U * kLines);
  EXPECT_THAT(Config(prefixed), HasSubstr("does not end"));
}

TEST(PrintedConfig, IsLookedForOnceAboveItsKey) {
  std::string log;
  for (int i = 0; i < 100'000; ++i) {
    log += "actor_rollout_ref without a bracket\n";
  }
  EXPECT_THAT(Config(log), HasSubstr("no printed configuration"));
  EXPECT_EQ(Config("{\n\"actor_rollout_ref\": 1\n}\n" + log), R"({"actor_rollout_ref": 1})");
}

TEST(PrintedConfig, ThatDoesNotEndIsAnError) {
  EXPECT_THAT(Config("x\n{'actor_rollout_ref': {'a': 1},\n 'b': 2\n"), HasSubstr("a.log line 2"));
  EXPECT_THAT(Config("nothing here"), HasSubstr("no printed configuration"));
  EXPECT_THAT(Config(""), HasSubstr("no printed configuration"));
  // A colour whose end is the word's first letter.
  EXPECT_THAT(Config("\x1b[36Namespace(lr=1)\n"), HasSubstr("no printed configuration"));
}

TEST(PrintedConfig, GivesWayToAnEarlierOneWhenItDoesNotEnd) {
  const Result<PrintedConfig> config = FindPrintedConfig(
      "{'actor_rollout_ref': {'a': 1}}\n{'actor_rollout_ref': {'a': 2},\n", "a.log");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ((*config).line, 1U);
  EXPECT_THAT((*config).warnings, testing::Contains(HasSubstr("not complete")));
}

}  // namespace
}  // namespace msprobe::analysis::config_check
