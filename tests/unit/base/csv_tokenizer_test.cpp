#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/csv.h"

namespace msprobe::base {
namespace {

using ::testing::ElementsAre;
using Row = CsvTokenizer::Row;
using Fields = std::vector<std::string>;

constexpr CsvDialect kByLine = {.row_end = CsvDialect::RowEnd::kEveryLineFeed};
constexpr CsvDialect kJoined = {.after_quote = CsvDialect::AfterQuote::kJoined};

Fields Copy(const CsvTokenizer& rows) { return {rows.fields().begin(), rows.fields().end()}; }

// All rows up to the end or the first error, which is an empty row.
std::vector<Fields> RowsOf(std::string_view text, const CsvDialect& dialect = {}) {
  CsvTokenizer tokenizer(text, dialect);
  std::vector<Fields> rows;
  for (Row row = tokenizer.Next(); row != Row::kEnd; row = tokenizer.Next()) {
    if (row != Row::kFields) {
      rows.emplace_back();
      break;
    }
    rows.push_back(Copy(tokenizer));
  }
  return rows;
}

TEST(CsvTokenizer, EndsRowsAtEveryKindOfLineEnd) {
  EXPECT_THAT(RowsOf("a,b\r\nc\rd,\n\ne"),
              ElementsAre(Fields{"a", "b"}, Fields{"c"}, Fields{"d", ""}, Fields{""}, Fields{"e"}));
  EXPECT_THAT(RowsOf(""), ElementsAre());
  EXPECT_THAT(RowsOf(","), ElementsAre(Fields{"", ""}));
}

TEST(CsvTokenizer, TakesCarriageReturnsForTextWhereLineFeedsEndRows) {
  EXPECT_THAT(RowsOf("a,b\r\nc\rd\n\r\n", kByLine),
              ElementsAre(Fields{"a", "b"}, Fields{"c\rd"}, Fields{""}));
}

TEST(CsvTokenizer, FindsTheEndOfFieldsOfEveryLength) {
  // Around the eight bytes that are looked at together.
  for (size_t length = 0; length < 40; ++length) {
    const std::string field(length, '\xFF');
    for (const char* const end : {"\n", "\r\n", ""}) {
      EXPECT_THAT(RowsOf("x," + field + "," + field + end), ElementsAre(Fields{"x", field, field}));
      EXPECT_THAT(RowsOf("x," + field + "," + field + end, kByLine),
                  ElementsAre(Fields{"x", field, field}));
    }
  }
}

TEST(CsvTokenizer, TakesBytesBesideTheSeparatorsForText) {
  EXPECT_THAT(RowsOf("+-\x0b\x0c\x8d\x8a\xac,\xff\x01-,-,\n"),
              ElementsAre(Fields{"+-\x0b\x0c\x8d\x8a\xac", "\xff\x01-", "-", ""}));
}

TEST(CsvTokenizer, TakesQuotesAway) {
  EXPECT_THAT(RowsOf("\"1,2\",\"\"\"64\"\"\",\"\",\"two\r\nlines\"\nlast"),
              ElementsAre(Fields{"1,2", "\"64\"", "", "two\r\nlines"}, Fields{"last"}));
  EXPECT_THAT(RowsOf("a\"b,\"\"\"\"", kByLine), ElementsAre(Fields{"a\"b", "\""}));
}

TEST(CsvTokenizer, TellsTheLineOfEveryRow) {
  CsvTokenizer rows("\n\r\na\n\"b\n\n\"\"\",c\nd");
  rows.SkipEmptyLines();
  ASSERT_EQ(rows.Next(), Row::kFields);
  EXPECT_EQ(rows.line(), 3U);
  ASSERT_EQ(rows.Next(), Row::kFields);
  EXPECT_EQ(rows.line(), 4U);
  EXPECT_TRUE(rows.has_copies());
  EXPECT_EQ(rows.row_text(), "\"b\n\n\"\"\",c");
  ASSERT_EQ(rows.Next(), Row::kFields);
  EXPECT_EQ(rows.line(), 7U);
  EXPECT_FALSE(rows.has_copies());
  EXPECT_EQ(rows.Next(), Row::kEnd);
}

TEST(CsvTokenizer, RefusesQuotesThatDoNotEnd) {
  CsvTokenizer rows("a\n\"b\"\"\nc,d\n");
  ASSERT_EQ(rows.Next(), Row::kFields);
  EXPECT_EQ(rows.Next(), Row::kOpenQuote);
  EXPECT_EQ(rows.line(), 2U);
}

TEST(CsvTokenizer, GoesOnBehindABrokenRowWhereEveryLineFeedEndsOne) {
  CsvTokenizer rows("\"a\nb,\"c\"d\r\ne,f\n", kByLine);
  EXPECT_EQ(rows.Next(), Row::kOpenQuote);
  EXPECT_EQ(rows.row_text(), "\"a");
  EXPECT_EQ(rows.Next(), Row::kTextAfterQuote);
  EXPECT_EQ(rows.row_text(), "b,\"c\"d");
  ASSERT_EQ(rows.Next(), Row::kFields);
  EXPECT_EQ(rows.line(), 3U);
  EXPECT_THAT(Copy(rows), ElementsAre("e", "f"));
}

TEST(CsvTokenizer, LetsAQuotedFieldHoldLineEndsWhereEveryLineFeedEndsARow) {
  CsvTokenizer rows("1,\"a\nb\r\n\"\"c\",2\r\n3,d,4\n", kByLine);
  ASSERT_EQ(rows.Next(), Row::kFields);
  EXPECT_THAT(Copy(rows), ElementsAre("1", "a\nb\r\n\"c", "2"));
  EXPECT_EQ(rows.line(), 1U);
  EXPECT_EQ(rows.row_text(), "1,\"a\nb\r\n\"\"c\",2");
  ASSERT_EQ(rows.Next(), Row::kFields);
  EXPECT_EQ(rows.line(), 4U);
  EXPECT_THAT(Copy(rows), ElementsAre("3", "d", "4"));
  EXPECT_EQ(rows.Next(), Row::kEnd);
}

TEST(CsvTokenizer, LooksForTheEndOfAQuotedFieldNearbyOnly) {
  const std::string far(CsvTokenizer::kMostContinuedBytes, 'x');
  for (const std::string& text : {"1,\"a\n" + far + "\",2\n3,4\n", std::string("1,\"a\n3,4\n")}) {
    CsvTokenizer rows(text, kByLine);
    EXPECT_EQ(rows.Next(), Row::kOpenQuote);
    EXPECT_EQ(rows.row_text(), "1,\"a");
    ASSERT_EQ(rows.Next(), Row::kFields);
    EXPECT_EQ(rows.line(), 2U);
  }
}

TEST(CsvTokenizer, JoinsWhatFollowsAQuoteOnlyWhereAsked) {
  EXPECT_THAT(RowsOf("\"a\" ,b\n"), ElementsAre(Fields{}));
  EXPECT_THAT(RowsOf("\"a\"\"\" \t,\"b\"c\n", kJoined), ElementsAre(Fields{"a\" \t", "bc"}));
}

TEST(CsvTokenizer, CountsFieldsBeyondThoseItKeeps) {
  CsvTokenizer rows("1,2,\"3\"\"\",4\n", {.most_fields = 2});
  ASSERT_EQ(rows.Next(), Row::kFields);
  EXPECT_THAT(Copy(rows), ElementsAre("1", "2"));
  EXPECT_EQ(rows.field_count(), 4U);
  EXPECT_FALSE(rows.has_copies());
}

TEST(WithoutByteOrderMark, TakesTheMarkAway) {
  EXPECT_EQ(WithoutByteOrderMark("\xEF\xBB\xBF"
                                 "a"),
            "a");
  EXPECT_EQ(WithoutByteOrderMark("\xEF\xBB"), "\xEF\xBB");
}

}  // namespace
}  // namespace msprobe::base
