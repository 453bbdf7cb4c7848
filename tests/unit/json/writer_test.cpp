#include "src/json/writer.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "src/json/stream_reader.h"

namespace msprobe::json {
namespace {

// Writes what it is told by the reader.
class Copier final : public Handler {
 public:
  explicit Copier(Writer& writer) : writer_(writer) {}
  bool OnNull() override {
    return Do([&] { writer_.Null(); });
  }
  bool OnBool(bool value) override {
    return Do([&] { writer_.Bool(value); });
  }
  bool OnInt(int64_t value) override {
    return Do([&] { writer_.Int(value); });
  }
  bool OnFloat(double value, std::string_view /*digits*/) override {
    return Do([&] { writer_.Float(value); });
  }
  bool OnText(std::string_view value) override {
    return Do([&] { writer_.Text(value); });
  }
  bool OnBeginObject() override {
    return Do([&] { writer_.BeginObject(); });
  }
  bool OnKey(std::string_view key) override {
    return Do([&] { writer_.Key(key); });
  }
  bool OnEndObject() override {
    return Do([&] { writer_.EndObject(); });
  }
  bool OnBeginArray() override {
    return Do([&] { writer_.BeginArray(); });
  }
  bool OnEndArray() override {
    return Do([&] { writer_.EndArray(); });
  }

 private:
  template <typename Action>
  static bool Do(Action action) {
    action();
    return true;
  }
  Writer& writer_;
};

std::string Rewrite(std::string_view text, int indent) {
  std::string out;
  Writer writer(out, indent);
  Copier copier(writer);
  const Status status = ParseStream(text, copier);
  return status.ok() ? out : status.message();
}

std::string Quoted(std::string_view text) {
  std::string out;
  Writer(out, -1).Text(text);
  return out;
}

std::string Spelled(double value, Writer::NonFinite non_finite = Writer::NonFinite::kPython) {
  std::string out;
  Writer(out, -1, non_finite).Float(value);
  return out;
}

// The expected texts were written by Python's json.dumps.
TEST(Writer, SpellsOneLineDocumentsAsPythonDoes) {
  const std::string text =
      R"({"a": [1, 2.0, 1e-05, 1e+16, true, null], "b": {}, "c": [], "d": {"e": [[]]}})";
  EXPECT_EQ(Rewrite(text, -1), text);
}

TEST(Writer, IndentsAsPythonDoes) {
  const std::string text =
      "{\n \"a\": [\n  1,\n  {\n   \"x\": \"y\"\n  }\n ],\n \"b\": {},\n \"c\": [],\n \"d\": "
      "NaN\n}";
  EXPECT_EQ(Rewrite(text, 1), text);
  EXPECT_EQ(Rewrite("[1, [2]]", 4), "[\n    1,\n    [\n        2\n    ]\n]");
  EXPECT_EQ(Rewrite("[1, [2]]", 0), "[\n1,\n[\n2\n]\n]");
}

TEST(Writer, EscapesEverythingOutsidePrintableAscii) {
  EXPECT_EQ(Quoted("a\"b\\c/\n\r\t\b\f"), R"("a\"b\\c/\n\r\t\b\f")");
  EXPECT_EQ(Quoted(std::string("\x01\x1f\x7f\0", 4)), R"("\u0001\u001f\u007f\u0000")");
  EXPECT_EQ(Quoted("h\u00e9llo \u4f60\u597d \U0001F600"),
            R"("h\u00e9llo \u4f60\u597d \ud83d\ude00")");
}

TEST(Writer, EscapesAByteAlikeWhereverItStands) {
  for (int byte = 0; byte < 0x80; ++byte) {
    const std::string item(1, static_cast<char>(byte));
    const std::string alone = Quoted(item);
    const std::string spelled = alone.substr(1, alone.size() - 2);
    for (size_t place = 0; place < 20; ++place) {
      const std::string before(place, 'a');
      const std::string after(19 - place, '~');
      ASSERT_EQ(Quoted(before + item + after), '"' + before + spelled + after + '"')
          << byte << " at " << place;
    }
  }
}

TEST(Writer, SpellsInvalidUtf8AsPythonHoldsIt) {
  EXPECT_EQ(Quoted("\xFF"), R"("\udcff")");
  EXPECT_EQ(Quoted("a\xC3"), R"("a\udcc3")");
  EXPECT_EQ(Quoted("\xC0\xAF"), R"("\udcc0\udcaf")");
  EXPECT_EQ(Quoted("\xE0\x80\x80"), R"("\udce0\udc80\udc80")");
  EXPECT_EQ(Quoted("\xF5\x80\x80\x80"), R"("\udcf5\udc80\udc80\udc80")");
}

TEST(Writer, KeepsLoneSurrogatesOnTheWayThrough) {
  EXPECT_EQ(Rewrite(R"(["\udc80", "\ud800x"])", -1), R"(["\udc80", "\ud800x"])");
}

TEST(Writer, SpellsFloatsByRepr) {
  EXPECT_EQ(Spelled(1.0), "1.0");
  EXPECT_EQ(Spelled(-0.0), "-0.0");
  EXPECT_EQ(Spelled(0.1), "0.1");
  EXPECT_EQ(Spelled(1e-7), "1e-07");
  EXPECT_EQ(Spelled(123456789012345680.0), "1.2345678901234568e+17");
  EXPECT_EQ(Spelled(std::nan("")), "NaN");
  EXPECT_EQ(Spelled(HUGE_VAL), "Infinity");
  EXPECT_EQ(Spelled(-HUGE_VAL), "-Infinity");
}

TEST(Writer, WritesNullForNonFiniteNumbersWhereAReaderIsStrict) {
  EXPECT_EQ(Spelled(std::nan(""), Writer::NonFinite::kNull), "null");
  EXPECT_EQ(Spelled(-HUGE_VAL, Writer::NonFinite::kNull), "null");
  EXPECT_EQ(Spelled(0.5, Writer::NonFinite::kNull), "0.5");
}

TEST(Writer, SpellsNonFiniteNumbersAsTextsWhereNothingMayBeLost) {
  EXPECT_EQ(Spelled(std::nan(""), Writer::NonFinite::kText), "\"NaN\"");
  EXPECT_EQ(Spelled(-HUGE_VAL, Writer::NonFinite::kText), "\"-Infinity\"");
  EXPECT_EQ(Spelled(0.5, Writer::NonFinite::kText), "0.5");
}

TEST(Writer, WritesAPartAsItStandsInsideTheWhole) {
  std::string whole;
  Writer outer(whole, 1);
  outer.BeginObject();
  outer.Key("a");
  outer.BeginArray();
  outer.BeginArray();
  outer.Int(1);
  outer.EndArray();
  outer.EndArray();
  outer.EndObject();
  std::string part;
  Writer inner(part, 1, Writer::NonFinite::kPython, 2);
  inner.BeginArray();
  inner.Int(1);
  inner.EndArray();
  EXPECT_EQ(whole, "{\n \"a\": [\n  " + part + "\n ]\n}");
}

TEST(Writer, PutsMembersOfEveryType) {
  std::string out;
  Writer writer(out, -1);
  writer.BeginObject();
  writer.Member("i", 1);
  writer.Member("l", std::numeric_limits<int64_t>::min());
  writer.Member("d", 2.0);
  writer.Member("b", true);
  writer.Member("s", std::string("x"));
  writer.Member("c", "y");
  writer.Key("r");
  writer.Raw("1e999");
  writer.EndObject();
  EXPECT_EQ(
      out,
      R"({"i": 1, "l": -9223372036854775808, "d": 2.0, "b": true, "s": "x", "c": "y", "r": 1e999})");
}

TEST(Writer, GoesOnAfterItsOutputWasFlushed) {
  std::string out;
  Writer writer(out, 1);
  writer.BeginArray();
  writer.Int(1);
  std::string flushed = std::exchange(out, "");
  writer.Int(2);
  writer.EndArray();
  EXPECT_EQ(flushed + out, "[\n 1,\n 2\n]");
}

}  // namespace
}  // namespace msprobe::json
