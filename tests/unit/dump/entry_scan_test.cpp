#include "src/dump/entry_scan.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::dump {
namespace {

struct Seen {
  std::vector<std::string> names;
  std::vector<std::string> texts;
  std::vector<bool> suspicious;
  Result<EntryScanOutcome> outcome = EntryScanOutcome();
};

Seen Scan(std::string_view text) {
  Seen seen;
  seen.outcome = ScanEntryText(text, [&](const ScannedEntry& entry, const EntryScanOutcome&) {
    EXPECT_EQ(entry.text, text.substr(entry.offset, entry.text.size()));
    seen.names.emplace_back(entry.name);
    seen.texts.emplace_back(entry.text);
    seen.suspicious.push_back(entry.is_suspicious);
    return true;
  });
  return seen;
}

TEST(EntryScan, HandsOutNamesAndTexts) {
  const Seen seen = Scan(R"({"task": "statistics", "framework": "pytorch",
    "data": {"A.b.0.forward": {"x": [1, {"y": "}]"}]}, "C": null}, "more": [1]})");
  ASSERT_TRUE(seen.outcome.ok());
  EXPECT_EQ(seen.names, (std::vector<std::string>{"A.b.0.forward", "C"}));
  EXPECT_EQ(seen.texts[0], R"({"x": [1, {"y": "}]"}]})");
  EXPECT_EQ(seen.outcome->framework, "pytorch");
  EXPECT_TRUE(seen.outcome->has_data);
  EXPECT_FALSE(seen.outcome->truncated);
  EXPECT_EQ(seen.outcome->entry_count, 2u);
}

TEST(EntryScan, TellsEntriesThatMayHoldNonFiniteValues) {
  for (const char* bad :
       {"NaN", "Infinity", "-Infinity", R"("nan")", R"("INF")", R"("-inf")", R"("nan\t")"}) {
    for (size_t padding = 0; padding < 130; ++padding) {
      const std::string blanks(padding, ' ');
      const Seen seen =
          Scan(R"({"data": {"A": {"k": )" + blanks + bad + R"(}, "B": {"Max": 1.0}}})");
      ASSERT_EQ(seen.suspicious.size(), 2u) << bad << padding;
      EXPECT_TRUE(seen.suspicious[0]) << bad << padding;
      EXPECT_FALSE(seen.suspicious[1]) << bad << padding;
    }
  }
}

TEST(EntryScan, TellsEntriesThatAParserRefuses) {
  const std::vector<std::string> bad = {"1e999999",
                                        "1E+400",
                                        "-1e0000000999",
                                        "1" + std::string(400, '0'),
                                        "1" + std::string(215, '0') + "e99",
                                        std::string("\"a\0b\"", 5),
                                        "\"a\nb\"",
                                        std::string("1\0", 2),
                                        "\v1"};
  for (const std::string& value : bad) {
    for (size_t padding = 0; padding < 130; ++padding) {
      const std::string blanks(padding, ' ');
      const Seen seen = Scan(R"({"data": {"A": {"k": )" + blanks + value + R"(}, "B": {}}})");
      ASSERT_EQ(seen.suspicious.size(), 2u) << value << padding;
      EXPECT_TRUE(seen.suspicious[0]) << value << padding;
      EXPECT_FALSE(seen.suspicious[1]) << value << padding;
    }
  }
}

TEST(EntryScan, RefusesControlCharactersInNames) {
  EXPECT_FALSE(Scan(std::string_view("{\"data\": {\"A\0b\": {}}}", 22)).outcome.ok());
  EXPECT_FALSE(Scan("{\"data\": {\"A\nb\": {}}}").outcome.ok());
  EXPECT_FALSE(Scan("{\"da\tta\": {}}").outcome.ok());
}

// Names are read eight bytes at a time: what is special is seen at any place in them.
TEST(EntryScan, NamesEndWhereTheyEndWhateverIsInThem) {
  const std::vector<std::pair<std::string, std::string>> inside = {
      {"", ""},         {R"(\")", "\""},          {R"(\\)", "\\"},     {R"(\n)", "\n"},
      {"\x7F", "\x7F"}, {"\xc3\xa9", "\xc3\xa9"}, {"{[]}:,", "{[]}:,"}};
  for (size_t length = 0; length < 26; ++length) {
    for (size_t place = 0; place <= length; ++place) {
      const std::string front(place, 'a');
      const std::string back(length - place, 'z');
      for (const auto& [written, read] : inside) {
        const std::string name = front + written + back;
        const Seen seen = Scan("{\"data\": {\"" + name + "\": {\"k\": 1}, \"B\": {}}}");
        ASSERT_TRUE(seen.outcome.ok()) << name;
        EXPECT_EQ(seen.names, (std::vector<std::string>{front + read + back, "B"}));
      }
      EXPECT_FALSE(Scan("{\"data\": {\"" + front + "\x1F" + back + "\": {}}}").outcome.ok());
    }
  }
}

TEST(EntryScan, GoodEntriesAreNotSuspicious) {
  const Seen seen = Scan(
      R"({"data": {"A": {"input_args": [{"type": "torch.Tensor", "Max": 1, "Min": -1, "Mean": 0, "In": "Name"}]}}})");
  ASSERT_EQ(seen.suspicious.size(), 1u);
  EXPECT_FALSE(seen.suspicious[0]);
  const Seen spread = Scan(
      "{\"data\": {\"A\": {\r\n\t\"Max\": 1.5e-300,\n\t\"Min\": -2e+38, \"x\": [true, false, "
      "1e38]}}}");
  ASSERT_EQ(spread.suspicious.size(), 1u);
  EXPECT_FALSE(spread.suspicious[0]);
}

TEST(EntryScan, DecodesEscapedNames) {
  const Seen seen = Scan(R"({"data": {"A\u00e9\"b": {}}})");
  EXPECT_EQ(seen.names, std::vector<std::string>{"A\xc3\xa9\"b"});
}

TEST(EntryScan, DeliversTheCompleteEntriesOfEveryPrefix) {
  const std::string whole = R"({"data": {"A": {"k": [1, 2]}, "B": {"t": "a\"b"}, "C": {}}})";
  for (size_t length = 0; length < whole.size(); ++length) {
    const Seen seen = Scan(std::string_view(whole).substr(0, length));
    ASSERT_TRUE(seen.outcome.ok()) << length;
    EXPECT_TRUE(seen.outcome->truncated) << length;
    for (const std::string& text : seen.texts) {
      EXPECT_EQ(text.back(), '}');
    }
  }
  EXPECT_EQ(Scan(whole).names.size(), 3u);
}

TEST(EntryScan, RefusesWhatIsNoObject) {
  EXPECT_FALSE(Scan("[1, 2]").outcome.ok());
  EXPECT_FALSE(Scan(R"({"data": {"A" 1}})").outcome.ok());
  EXPECT_FALSE(Scan(R"({"data": {1: 2}})").outcome.ok());
  EXPECT_FALSE(Scan(R"({"data": {"A": {} "B": {}}})").outcome.ok());
}

TEST(EntryScan, AMillionOpenBracketsAreNoProblem) {
  const std::string deep = R"({"data": {"A": )" + std::string(1'000'000, '[');
  const Seen seen = Scan(deep);
  ASSERT_TRUE(seen.outcome.ok());
  EXPECT_TRUE(seen.outcome->truncated);
  EXPECT_TRUE(seen.names.empty());
}

TEST(EntryScan, AgreesWithTheParserOnRandomDocuments) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string value = "{";
    const int members = static_cast<int>(random() % 6);
    for (int i = 0; i < members; ++i) {
      value += (i > 0 ? ", " : "") + std::string("\"k") + std::to_string(i) + "\": ";
      switch (random() % 5) {
        case 0:
          value += "[" + std::string(random() % 90, ' ') + "1, [2]]";
          break;
        case 1:
          value += "\"" + std::string(random() % 70, '{') + "\\\\\"";
          break;
        case 2:
          value += "{\"Max\": -0.5e3}";
          break;
        case 3:
          value += "\"" + std::string(random() % 70, ']') + "\"";
          break;
        default:
          value += "null";
      }
    }
    value += "}";
    const Seen seen = Scan("{\"data\": {\"A\": " + value + ", \"B\": " + value + "}}");
    ASSERT_TRUE(seen.outcome.ok());
    EXPECT_EQ(seen.texts, (std::vector<std::string>{value, value}));
  }
}

}  // namespace
}  // namespace msprobe::dump
