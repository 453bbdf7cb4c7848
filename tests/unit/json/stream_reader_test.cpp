#include "src/json/stream_reader.h"

#include <cmath>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/json/event_log.h"

namespace msprobe::json {
namespace {

using ::testing::HasSubstr;

std::string Events(std::string_view text) {
  EventLog log;
  const Status status = ParseStream(text, log);
  return status.ok() ? log.text : status.message();
}

TEST(ParseStream, DeliversEveryKindOfValueInOrder) {
  EXPECT_EQ(Events(R"({"a": [1, -2, 2.5, true, false, null, "x"], "b": {}, "c": []})"),
            "{ a: [ i1 i-2 f2.5=2.5 true false null \"x\" ] b: { } c: [ ] }");
}

TEST(ParseStream, AcceptsABareValueAsDocument) {
  EXPECT_EQ(Events(" 12 "), "i12");
  EXPECT_EQ(Events("12"), "i12");
  EXPECT_EQ(Events("\"x\""), "\"x\"");
  EXPECT_EQ(Events("-Infinity"), "f-inf=-Infinity");
}

TEST(ParseStream, ReadsTheNonFiniteNumbersThatPythonWrites) {
  EXPECT_EQ(Events("[NaN, Infinity, -Infinity]"), "[ fnan=NaN finf=Infinity f-inf=-Infinity ]");
}

TEST(ParseStream, KeepsIntegersExactAndGivesTheDigitsOfLargerOnes) {
  EXPECT_EQ(Events("[9223372036854775807, -9223372036854775808]"),
            "[ i9223372036854775807 i-9223372036854775808 ]");
  EXPECT_EQ(Events("[9223372036854775808]"), "[ f9.223372036854776e+18=9223372036854775808 ]");
  EXPECT_EQ(Events("[123456789012345678901234567890]"),
            "[ f1.2345678901234568e+29=123456789012345678901234567890 ]");
}

TEST(ParseStream, RoundsFloatsAsPythonDoes) {
  EXPECT_EQ(Events("[0.1, 5e-324, 1.7976931348623157e308, 8.41e21, 9007199254740993.0, -0.0]"),
            "[ f0.1=0.1 f5e-324=5e-324 f1.7976931348623157e+308=1.7976931348623157e308 "
            "f8.41e+21=8.41e21 f9007199254740992.0=9007199254740993.0 f-0.0=-0.0 ]");
  EXPECT_EQ(Events("[1e-400]"), "[ f0.0=1e-400 ]");
}

TEST(ParseStream, DecodesEscapesAndSurrogatePairs) {
  EXPECT_EQ(Events(R"(["\"\\\/\b\f\n\r\t", "a\u00e9b", "\ud83d\ude00!"])"),
            "[ \"\"\\/\b\f\n\r\t\" \"a\u00e9b\" \"\U0001F600!\" ]");
}

TEST(ParseStream, KeepsLoneSurrogatesInTheirThreeByteForm) {
  EXPECT_EQ(Events(R"(["\udc80", "\ud800x"])"), "[ \"\xED\xB2\x80\" \"\xED\xA0\x80x\" ]");
}

TEST(ParseStream, PassesInvalidUtf8Through) {
  EXPECT_EQ(Events("[\"\xFF\xC3\"]"), "[ \"\xFF\xC3\" ]");
}

TEST(ParseStream, FindsTheEndOfLongTextsAtEveryAlignment) {
  for (size_t length = 0; length < 70; ++length) {
    const std::string plain(length, 'x');
    const std::string blanks(length, length % 2 == 0 ? ' ' : '\n');
    EXPECT_EQ(Events(fmt::format("[\"{}\"]", plain)), fmt::format("[ \"{}\" ]", plain));
    EXPECT_EQ(Events(fmt::format("[\"{0}\\n{0}\"]", plain)),
              fmt::format("[ \"{0}\n{0}\" ]", plain));
    EXPECT_EQ(Events(fmt::format("[{0}1{0},{0}2]", blanks)), "[ i1 i2 ]");
  }
}

TEST(ParseStream, ToleratesAByteOrderMark) { EXPECT_EQ(Events("\xEF\xBB\xBF[1]"), "[ i1 ]"); }

TEST(ParseStream, StopsWhenTheHandlerHasSeenEnough) {
  EventLog log;
  log.stop_after = 3;
  EXPECT_TRUE(ParseStream("[1, 2, 3, 4, broken", log).ok());
  EXPECT_EQ(log.text, "[ i1 i2");
}

TEST(ParseStream, NamesLineColumnAndByteOfAnError) {
  EventLog log;
  ParseOutcome outcome;
  const Status status = ParseStream("{\n \"a\": 1\n \"b\": 2}", log, &outcome);
  EXPECT_EQ(status.code(), StatusCode::kBadFormat);
  EXPECT_THAT(status.message(), HasSubstr("line 3 column 2 (byte 11): expected ',' or '}'"));
  EXPECT_EQ(outcome.error_offset, 11U);
  EXPECT_FALSE(outcome.truncated);
}

TEST(ParseStream, RecognisesEveryPrefixOfADocumentAsTruncated) {
  const std::string whole =
      R"({"a": [1, -2.5e+3, true, null, "t\u00e9\ud83d\ude00\n", NaN, -Infinity], "b": {"c": false}})";
  for (size_t length = 1; length < whole.size(); ++length) {
    EventLog log;
    ParseOutcome outcome;
    const std::string part = whole.substr(0, length);
    EXPECT_FALSE(ParseStream(part, log, &outcome).ok()) << part;
    EXPECT_TRUE(outcome.truncated) << part;
    EXPECT_EQ(outcome.error_offset, length) << part;
  }
}

TEST(ParseStream, DoesNotDeliverANumberThatMayHaveLostDigits) {
  EventLog log;
  EXPECT_FALSE(ParseStream("[12, 34", log).ok());
  EXPECT_EQ(log.text, "[ i12");
}

TEST(ParseStream, RefusesWhatIsNotJson) {
  for (const char* text :
       {"",           "  ",        "[1,]",  "{\"a\":1,}", "{a: 1}", "[01]",      "[1.]",
        "[.5]",       "[+1]",      "['a']", "[1] 2",      "[tru]",  "[\"\\x\"]", "[\"\\u12g4\"]",
        "[\"a\nb\"]", "// x\n[1]", "[nan]", "{\"a\" 1}",  "]",      "{]",        "[}",
        "{\"a\":}",   "[1 2]",     "[-]"}) {
    EventLog log;
    EXPECT_EQ(ParseStream(text, log).code(), StatusCode::kBadFormat) << text;
  }
}

TEST(ParseStream, RefusesNulBytesBehindTheDocument) {
  EventLog log;
  ParseOutcome outcome;
  EXPECT_FALSE(ParseStream(std::string_view("[1]\0[2]", 7), log, &outcome).ok());
  EXPECT_FALSE(outcome.truncated);
  EXPECT_EQ(outcome.error_offset, 3U);
}

TEST(ParseStream, RefusesDeepNestingInsteadOfCrashing) {
  for (const std::string& deep : {std::string(100000, '['), std::string(1000000, '[')}) {
    EventLog log;
    const Status status = ParseStream(deep, log);
    EXPECT_THAT(status.message(), HasSubstr("more than 512 nested levels"));
  }
  std::string objects;
  for (int i = 0; i < 100000; ++i) {
    objects += "{\"a\":";
  }
  EventLog log;
  EXPECT_FALSE(ParseStream(objects, log, nullptr, 1'000'000'000).ok());
}

TEST(ParseStream, AllowsExactlyTheGivenDepth) {
  EventLog log;
  EXPECT_TRUE(ParseStream("[[[1]]]", log, nullptr, 3).ok());
  EXPECT_FALSE(ParseStream("[[[1]]]", log, nullptr, 2).ok());
}

}  // namespace
}  // namespace msprobe::json
