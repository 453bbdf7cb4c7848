#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "src/json/stream_reader.h"
#include "tests/unit/json/event_log.h"

namespace msprobe::json {
namespace {

constexpr std::string_view kDocument =
    "{\n  \"input_args\": [{\"type\": \"torch.Tensor\", \"shape\": [4096, 0], \"Max\": NaN,\r\n"
    "\t\"Min\": -Infinity, \"Mean\": -1.5e-07, \"Norm\": 8.41E+21}, [], null , {} ],\n"
    "  \"is_recompute\":false, \"output\": [Infinity, true, -12, 0.25, \"a long text, of "
    "blocks\"]}";

bool IsPlain(std::string_view text) {
  EventLog log;
  return ParsePlainObject(text, log);
}

// What the walk takes, the parser takes, and both tell the same.
void ExpectSameAsParser(std::string_view text, uint64_t* plain = nullptr) {
  EventLog walked;
  if (!ParsePlainObject(text, walked)) {
    return;
  }
  EventLog parsed;
  const Status status = ParseStream(text, parsed);
  EXPECT_TRUE(status.ok()) << text << ": " << status.message();
  EXPECT_EQ(walked.text, parsed.text) << text;
  if (plain != nullptr) {
    ++*plain;
  }
}

TEST(PlainWalk, TellsWhatTheParserTells) {
  EXPECT_TRUE(IsPlain(kDocument));
  ExpectSameAsParser(kDocument);
  EXPECT_TRUE(IsPlain("{}"));
  EXPECT_TRUE(IsPlain("{\"a\":{\"b\":[[],[{}]]}}"));
  ExpectSameAsParser("{\"a\":{\"b\":[[],[{}]]}}");
}

TEST(PlainWalk, LeavesTheUnusualToTheParser) {
  for (const std::string_view text :
       {"{\"a\\u0062\": 1}", "{\"a\": \"\\n\"}", "{\"a\": 1e100}", "{\"a\": Inf}", "{\"a\": -NaN}",
        "[1]", "1", " {}", "{} ", "\xEF\xBB\xBF{}",
        "{\"a\": 0.1234567890123456789012345678901234567890}"}) {
    EXPECT_FALSE(IsPlain(text)) << text;
  }
  const std::string deep = "{\"a\":" + std::string(64, '[') + std::string(64, ']') + "}";
  EXPECT_FALSE(IsPlain(deep));
  const std::string less_deep = "{\"a\":" + std::string(63, '[') + std::string(63, ']') + "}";
  EXPECT_TRUE(IsPlain(less_deep));
  ExpectSameAsParser(less_deep);
}

TEST(PlainWalk, TakesNothingDamaged) {
  for (const std::string_view text : {"",
                                      "{",
                                      "{\"a\"",
                                      "{\"a\":",
                                      "{\"a\":1",
                                      "{\"a\":1,}",
                                      "{\"a\":[1,]}",
                                      "{\"a\":[,]}",
                                      "{,}",
                                      "{\"a\" 1}",
                                      "{\"a\":01}",
                                      "{\"a\":1.}",
                                      "{\"a\":.5}",
                                      "{\"a\":-}",
                                      "{\"a\":1e}",
                                      "{\"a\":+1}",
                                      "{\"a\":nul}",
                                      "{\"a\":[1}",
                                      "{\"a\":{1]}",
                                      "{} {}",
                                      "{\"a\":1]",
                                      "{1:2}",
                                      "{\"a\":\"x\ny\"}",
                                      "{\"a\":1 2}",
                                      "{\"a\":tru",
                                      "{\"a\":truefalse}"}) {
    EXPECT_FALSE(IsPlain(text)) << text;
  }
}

TEST(PlainWalk, AgreesWithTheParserOnEveryDamageOfOneByte) {
  constexpr std::string_view kBytes = "{}[],:\"\\ \n\x01\x7F-+.0e9aN";
  uint64_t plain = 0;
  for (size_t at = 0; at < kDocument.size(); ++at) {
    ExpectSameAsParser(kDocument.substr(0, at), &plain);
    std::string text(kDocument);
    for (const char byte : kBytes) {
      text[at] = byte;
      ExpectSameAsParser(text, &plain);
    }
    ExpectSameAsParser(text.erase(at, 1), &plain);
  }
  EXPECT_GT(plain, 1000u);
}

}  // namespace
}  // namespace msprobe::json
