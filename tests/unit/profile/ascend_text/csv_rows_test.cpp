#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/profile/ascend_text/reader.h"
#include "tests/unit/profile/profile_files.h"

namespace msprobe::profile {
namespace {

CsvRows Rows(std::string_view text) {
  Result<CsvRows> rows = CsvRows::FromText(text, "some.csv");
  EXPECT_TRUE(rows.ok()) << rows.status().message();
  return *std::move(rows);
}

bool Next(CsvRows& rows) {
  const Result<bool> next = rows.Next();
  EXPECT_TRUE(next.ok()) << next.status().message();
  return next.ok() && *next;
}

TEST(CsvRows, FindsColumnsByName) {
  CsvRows rows = Rows("\xEF\xBB\xBFName,Size(KB)\r\naten::mm,512\r\n");
  EXPECT_EQ(rows.Find("Name"), 0U);
  EXPECT_EQ(rows.Find("Size(KB)"), 1U);
  EXPECT_EQ(rows.Find("Duration"), CsvRows::kNoColumn);
  EXPECT_EQ(rows.Missing({"Duration", "Name", "Type"}),
            (std::vector<std::string>{"Duration", "Type"}));
  ASSERT_TRUE(Next(rows));
  EXPECT_EQ(rows[0], "aten::mm");
  EXPECT_EQ(rows[1], "512");
  EXPECT_EQ(rows[CsvRows::kNoColumn], "");
  EXPECT_FALSE(Next(rows));
}

TEST(CsvRows, TakesQuotedCellsApart) {
  CsvRows rows = Rows("a,b,c\n\"1,2\",\"\"\"64,64\"\"\",\"two\nlines\"\nx,y,z");
  ASSERT_TRUE(Next(rows));
  EXPECT_EQ(rows[0], "1,2");
  EXPECT_EQ(rows[1], "\"64,64\"");
  EXPECT_EQ(rows[2], "two\nlines");
  EXPECT_EQ(rows.line(), 2U);
  ASSERT_TRUE(Next(rows));
  EXPECT_EQ(rows[2], "z");
  EXPECT_EQ(rows.line(), 4U);
  EXPECT_FALSE(Next(rows));
}

TEST(CsvRows, CutsBlanksAndTabsAroundCells) {
  CsvRows rows = Rows("a,b\n 1 ,1700000000002011.960\t\n");
  ASSERT_TRUE(Next(rows));
  EXPECT_EQ(rows[0], "1");
  EXPECT_EQ(rows[1], "1700000000002011.960");
}

TEST(CsvRows, LeavesShortRowsEmptyAndLongOnesCut) {
  CsvRows rows = Rows("a,b,c\n1\n1,2,3,4,5\n");
  ASSERT_TRUE(Next(rows));
  EXPECT_EQ(rows[2], "");
  ASSERT_TRUE(Next(rows));
  EXPECT_EQ(rows[2], "3");
  EXPECT_EQ(rows[3], "");
}

TEST(CsvRows, SkipsEmptyLines) {
  CsvRows rows = Rows("a\n\n\n1\n\n");
  ASSERT_TRUE(Next(rows));
  EXPECT_EQ(rows[0], "1");
  EXPECT_EQ(rows.line(), 4U);
  EXPECT_FALSE(Next(rows));
}

TEST(CsvRows, HasNoColumnsInAnEmptyFile) {
  const ProfileFiles files;
  Result<CsvRows> rows = CsvRows::Open(files.Write("empty.csv", ""));
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->Find(""), CsvRows::kNoColumn);
  EXPECT_FALSE(Next(*rows));
}

TEST(CsvRows, NamesTheLineOfAQuoteThatDoesNotEnd) {
  CsvRows rows = Rows("a\n1\n\"2\n3\n");
  ASSERT_TRUE(Next(rows));
  const Result<bool> next = rows.Next();
  ASSERT_FALSE(next.ok());
  EXPECT_NE(next.status().message().find("some.csv line 3"), std::string::npos);
}

TEST(CsvNumbers, CountsWhatIsNoNumberAsZero) {
  CsvRows rows = Rows("Time(us)\n1.5\nfast\n\nnan\n");
  CsvNumbers numbers(rows);
  ASSERT_TRUE(Next(rows));
  EXPECT_EQ(numbers.Number(0, "Time(us)"), 1.5);
  ASSERT_TRUE(Next(rows));
  EXPECT_EQ(numbers.Number(0, "Time(us)"), 0);
  ASSERT_TRUE(Next(rows));
  EXPECT_EQ(numbers.Number(0, "Time(us)"), 0);
  std::vector<std::string> warnings;
  numbers.Warn(warnings);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("some.csv line 3: no number in column Time(us) (2 rows)"),
            std::string::npos)
      << warnings[0];
}

TEST(CsvNumbers, TellsMissingNumbersFromZero) {
  CsvRows rows = Rows("a,b\nN/A,0\n,\n");
  CsvNumbers numbers(rows);
  ASSERT_TRUE(Next(rows));
  EXPECT_TRUE(std::isnan(numbers.NumberOrNan(0, "a")));
  EXPECT_EQ(numbers.NumberOrNan(1, "b"), 0);
  ASSERT_TRUE(Next(rows));
  EXPECT_TRUE(std::isnan(numbers.NumberOrNan(1, "b")));
}

}  // namespace
}  // namespace msprobe::profile
