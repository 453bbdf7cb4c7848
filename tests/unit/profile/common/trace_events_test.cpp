#include "src/profile/common/trace_events.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

namespace msprobe::profile {
namespace {

std::filesystem::path TestFile(std::string_view name) {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return std::filesystem::path(::testing::TempDir()) /
         fmt::format("profile_{}_{}", test->name(), name);
}

std::filesystem::path Written(std::string_view text, std::string_view name = "trace.json") {
  const std::filesystem::path path = TestFile(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// "phase category name start duration" of every event.
Result<std::vector<std::string>> Lines(const std::filesystem::path& path,
                                       TraceOutcome* outcome = nullptr) {
  std::vector<std::string> lines;
  Result<TraceOutcome> done = ForEachEvent(path, [&](const TraceEvent& event) {
    lines.push_back(fmt::format("{} {} {} {} {}", event.phase, event.category, event.name,
                                event.start.value_or(-1), event.duration.value_or(-1)));
    return true;
  });
  if (!done.ok()) {
    return std::move(done).status();
  }
  if (outcome != nullptr) {
    *outcome = *done;
  }
  return lines;
}

constexpr std::string_view kGpu =
    R"({"schemaVersion": 1, "note": "traceEvents", "deep": {"traceEvents": [{"ph": "i"}]},
 "traceEvents": [
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": "two", "ts": 10.5, "dur": 2,
  "args": {"Input Dims": [[64, 3], [], 5], "Input type": ["float", "it's"], "stream": 7}},
 {"ph": "s", "id": 12, "pid": 1, "ts": "11", "name": "a \"}]\" b"} ],
 "other": [{"ph": "X"}]})";

TEST(ForEachEvent, FindsTheEventsOfAnObject) {
  TraceOutcome outcome;
  const auto lines = Lines(Written(kGpu), &outcome);
  ASSERT_TRUE(lines.ok()) << lines.status().message();
  EXPECT_EQ(*lines,
            (std::vector<std::string>{"X cpu_op aten::mm 10500 2000", "s  a \"}]\" b 11000 -1"}));
  EXPECT_EQ(outcome.root, TraceRoot::kObject);
  EXPECT_EQ(outcome.events, 2U);
  EXPECT_FALSE(outcome.truncated);
}

TEST(ForEachEvent, PrintsShapesAsPythonDoes) {
  bool seen = false;
  const auto outcome = ForEachEvent(Written(kGpu), [&](const TraceEvent& event) {
    seen = true;
    EXPECT_EQ(event.argument(Argument::kShapes).text, "[[64, 3], [], 5]");
    EXPECT_EQ(event.argument(Argument::kShapes).joined, "64,3;\r\n;\r\n5");
    EXPECT_EQ(event.argument(Argument::kTypes).text, "['float', \"it's\"]");
    EXPECT_EQ(event.argument(Argument::kStream).integer(), 7);
    EXPECT_FALSE(event.argument(Argument::kBytes).present());
    EXPECT_EQ(event.process, "1");
    EXPECT_EQ(event.thread, "two");
    return false;
  });
  EXPECT_TRUE(outcome.ok());
  EXPECT_TRUE(seen);
}

TEST(ForEachEvent, TakesABareList) {
  TraceOutcome outcome;
  const auto lines = Lines(Written("\xEF\xBB\xBF [{\"ph\":\"M\"},{\"ph\":\"X\",\"ts\":\"1700000000"
                                   "001000.123\",\"dur\":4.25}]"),
                           &outcome);
  ASSERT_TRUE(lines.ok());
  EXPECT_EQ(*lines, (std::vector<std::string>{"M   -1 -1", "X   1700000000001000123 4250"}));
  EXPECT_EQ(outcome.root, TraceRoot::kList);
}

TEST(ForEachEvent, DeliversWhatIsCompleteOfATraceThatBreaksOff) {
  const size_t second = kGpu.find("{\"ph\": \"s\"");
  const size_t end_of_second = kGpu.find("} ],\n") + 1;
  for (size_t length = second; length <= end_of_second; length += 3) {
    TraceOutcome outcome;
    const auto lines = Lines(Written(kGpu.substr(0, length)), &outcome);
    ASSERT_TRUE(lines.ok()) << length << ": " << lines.status().message();
    EXPECT_EQ(lines->size(), length < end_of_second ? 1U : 2U) << length;
    EXPECT_TRUE(outcome.truncated) << length;
  }
}

// The end of the list is found in blocks: every place in a block is tried.
TEST(ForEachEvent, FindsTheEndOfTheListWhereverItLies) {
  for (size_t shift = 0; shift < 130; ++shift) {
    TraceOutcome outcome;
    const std::string text = fmt::format(
        R"({{"a": [{{}}], "traceEvents": [{{"ph": "X", "name": "{}}}]\\\"", "args": {{}}}}], "z": [{{"ph": "M"}}]}})",
        std::string(shift, 'n'));
    const auto lines = Lines(Written(text), &outcome);
    ASSERT_TRUE(lines.ok()) << shift << ": " << lines.status().message();
    EXPECT_EQ(*lines, std::vector<std::string>{"X  " + std::string(shift, 'n') + "}]\\\" -1 -1"});
    EXPECT_FALSE(outcome.truncated);
  }
}

TEST(ForEachEvent, LeavesOutAnEventWhoseTextIsNoJsonAndNamesTheByte) {
  for (const std::string_view damaged :
       {R"({"ph": "X" "name": "b"})", R"({"ph": "X", "name": ["b"})",
        R"({"ph": "X", "name": {"b"}})"}) {
    TraceOutcome outcome;
    const auto lines =
        Lines(Written(fmt::format(R"([{{"ph": "X", "name": "a"}}, {}, {{"ph": "X", "name": "c"}}])",
                                  damaged)),
              &outcome);
    ASSERT_TRUE(lines.ok()) << lines.status().message();
    EXPECT_EQ(*lines, (std::vector<std::string>{"X  a -1 -1", "X  c -1 -1"})) << damaged;
    EXPECT_EQ(outcome.damaged, 1U) << damaged;
    EXPECT_EQ(outcome.first_damage.find("byte "), 0U) << outcome.first_damage;
  }
}

TEST(ForEachEvent, ReadsWhatExportersWriteWronglyAsItWasMeant) {
  const auto read = [](std::string_view member) {
    TraceOutcome outcome;
    const auto lines = Lines(Written(fmt::format(R"({{"traceEvents": [{{"ph": "X", "name": "a"}},
            {{"ph": "X", {}, "ts": 2}}, {{"ph": "X", "name": "c"}}]}})",
                                                 member)),
                             &outcome);
    EXPECT_TRUE(lines.ok()) << member;
    EXPECT_EQ(outcome.damaged, 0U) << member << outcome.first_damage;
    EXPECT_EQ(lines->size(), 3U) << member;
    return lines->size() == 3 ? (*lines)[1] : std::string();
  };
  for (const std::string_view number : {"inf", "nan", "-inf", "-nan", "+Inf", "None", "1.#IND"}) {
    EXPECT_EQ(read(fmt::format(R"("name": "b", "args": {{"x": {}}})", number)), "X  b 2000 -1");
  }
  EXPECT_EQ(read(R"("name": "b", "dur": 5.)"), "X  b 2000 5000");
  EXPECT_EQ(read(R"('name': 'b')"), "X  b 2000 -1");
  EXPECT_EQ(read(R"("name": "C:\work\x.py")"), "X  C:\\work\\x.py 2000 -1");
  EXPECT_EQ(read(R"("name": "C:\users\")"), "X  C:\\users\\ 2000 -1");
  EXPECT_EQ(read(R"("name": "b", "args": {"x": "operator "" _a", "y": "a" b"})"), "X  b 2000 -1");
  EXPECT_EQ(read("\"name\": \"a\x01 b\nc\""), "X  a\x01 b\nc 2000 -1");
  EXPECT_EQ(read(R"("name": "b", "args": {"x": , "y": [1, 2,],})"), "X  b 2000 -1");
}

// A quote too many or too few hides where an event ends; the next one is found all the same.
TEST(ForEachEvent, FindsTheNextEventBehindAnUnbalancedQuote) {
  for (const size_t fill : {size_t{0}, size_t{100}, size_t{5} << 20U}) {
    std::string text = R"([{"ph": "X", "name": "a"}, {"ph": "X", "name": "b, "args": {"x": 1}})";
    for (int i = 0; i < 3; ++i) {
      text += fmt::format(R"(, {{"ph": "X", "name": "n{}", "args": {{"x": "{}"}}}})", i,
                          std::string(fill, 'f'));
    }
    TraceOutcome outcome;
    const auto lines = Lines(Written(text + "]"), &outcome);
    ASSERT_TRUE(lines.ok()) << lines.status().message();
    EXPECT_EQ(*lines,
              (std::vector<std::string>{"X  a -1 -1", "X  n0 -1 -1", "X  n1 -1 -1", "X  n2 -1 -1"}))
        << fill;
    EXPECT_EQ(outcome.damaged, 1U);
  }
}

TEST(ForEachEvent, ABareListNeedsNoEnd) {
  for (const std::string_view end : {"", ",", " ,\n ", "\n"}) {
    TraceOutcome outcome;
    const auto lines =
        Lines(Written(fmt::format(R"([{{"ph": "X", "name": "a"}}{})", end)), &outcome);
    ASSERT_TRUE(lines.ok());
    EXPECT_EQ(lines->size(), 1U);
    EXPECT_FALSE(outcome.truncated) << end;
  }
}

TEST(ForEachEvent, JoinsBeginningsAndEndsOnTheirThreads) {
  TraceOutcome outcome;
  const auto lines = Lines(Written(R"([
      {"ph": "B", "name": "outer", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": -10},
      {"ph": "B", "name": "inner", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 2},
      {"ph": "B", "name": "other", "cat": "kernel", "pid": 1, "tid": 2, "ts": 3},
      {"ph": "E", "pid": 1, "tid": 1, "ts": 4},
      {"ph": "E", "name": "outer", "pid": 1, "tid": 1, "ts": 9.5},
      {"ph": "E", "name": "other", "pid": 1, "tid": 2, "ts": 10},
      {"ph": "E", "pid": 7, "tid": 1, "ts": 11},
      {"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 12}])"),
                           &outcome);
  ASSERT_TRUE(lines.ok());
  EXPECT_EQ(*lines,
            (std::vector<std::string>{"X cpu_op inner 2000 2000", "X cpu_op outer -10000 19500",
                                      "X kernel other 3000 7000"}));
  EXPECT_EQ(outcome.joined, 3U);
  EXPECT_EQ(outcome.unpaired, 2U);
}

TEST(ForEachEvent, RefusesWhatIsNoTrace) {
  EXPECT_EQ(Lines(Written("")).status().code(), StatusCode::kBadFormat);
  EXPECT_EQ(Lines(Written("hello")).status().code(), StatusCode::kBadFormat);
  EXPECT_EQ(Lines("/nonexistent/trace.json").status().code(), StatusCode::kNotFound);
}

// More than one run, so that events lie across their borders, plain and compressed.
TEST(ForEachEvent, GivesTheSameEventsPlainAndCompressed) {
  std::string text = "{\"traceEvents\": [";
  for (int i = 0; i < 120'000; ++i) {
    text += fmt::format(
        "{}{{\"ph\": \"X\", \"name\": \"op {}\", \"ts\": {}, \"dur\": 1, \"args\": {{}}}}",
        i == 0 ? "" : ",\n", i, i);
  }
  text += "]}";
  const auto plain = Lines(Written(text));
  ASSERT_TRUE(plain.ok());
  ASSERT_EQ(plain->size(), 120'000U);
  EXPECT_EQ(plain->back(), "X  op 119999 119999000 1000");

  const std::filesystem::path path = TestFile("trace.json.gz");
  gzFile file = gzopen(path.c_str(), "wb1");
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
  const auto compressed = Lines(path);
  ASSERT_TRUE(compressed.ok());
  EXPECT_EQ(*compressed, *plain);

  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  TraceOutcome outcome;
  const auto half = Lines(path, &outcome);
  ASSERT_TRUE(half.ok()) << half.status().message();
  EXPECT_TRUE(outcome.truncated);
  EXPECT_GT(half->size(), 10'000U);
  EXPECT_LT(half->size(), 120'000U);
}

TEST(ForEachEvent, LeavesOutWhatACompressedTraceUnpacksToBeyondAnyTrace) {
  const std::filesystem::path path = TestFile("trace.json.gz");
  const std::string event =
      R"({"ph": "X", "name": ")" + std::string(size_t{1} << 20U, 'x') + R"(", "ts": 1})";
  constexpr uint64_t kEvents = 24;
  gzFile file = gzopen(path.c_str(), "wb1");
  for (uint64_t i = 0; i < kEvents; ++i) {
    const std::string text = (i == 0 ? "[" : ",") + event + (i + 1 == kEvents ? "]" : "");
    ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
              static_cast<int>(text.size()));
  }
  gzclose(file);
  uint64_t events = 0;
  const auto count = [&](const TraceEvent& /*event*/) {
    ++events;
    return true;
  };
  Result<TraceOutcome> outcome = ForEachEvent(path, count);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_TRUE(outcome->truncated);
  EXPECT_TRUE(outcome->unpacks_too_far);
  const uint64_t most = 64 * std::filesystem::file_size(path) + (uint64_t{16} << 20U);
  ASSERT_LT(most, kEvents * event.size());
  EXPECT_LE(events, most / event.size());
  EXPECT_GT(events, 14U);

  // Unpacked, it is read to its end.
  std::string whole = "[" + event;
  for (uint64_t i = 1; i < kEvents; ++i) {
    whole += "," + event;
  }
  events = 0;
  outcome = ForEachEvent(Written(whole + "]"), count);
  ASSERT_TRUE(outcome.ok());
  EXPECT_FALSE(outcome->truncated);
  EXPECT_EQ(events, kEvents);
}

}  // namespace
}  // namespace msprobe::profile
