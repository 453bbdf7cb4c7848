#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/output_files.h"
#include "src/base/threads.h"
#include "src/report/writers.h"
#include "tests/unit/report/sample.h"

namespace msprobe::report {
namespace {

std::string Csv(const Table& table) {
  const std::filesystem::path path = TestFile("t.csv");
  msprobe::base::SetExistingFiles(msprobe::base::Existing::kReplace);
  const Status status = WriteCsv(path, table);
  return status.ok() ? FileText(path) : status.message();
}

Table OneColumn(const std::vector<Cell>& cells) {
  Table table("t", {"c"});
  for (const Cell& cell : cells) {
    table.AddRow(std::span<const Cell>(&cell, 1));
  }
  return table;
}

TEST(WriteCsvParts, SpellsAsPandasAndCutsLongTables) {
  const Table table = OneColumn({Cell::Number(0.1), Cell::Number(1e17), Cell::Text("-0.5;0.25"),
                                 Cell::Text("-x"), Cell::Text(" inf")});
  for (const char* name :
       {"whole.csv", "parts_part_1.csv", "parts_part_2.csv", "parts_part_3.csv"}) {
    TestFile(name);  // removes what an earlier run left
  }
  std::filesystem::path stem = TestFile("whole");
  Result<std::vector<std::filesystem::path>> whole = WriteCsvParts(stem, table);
  ASSERT_TRUE(whole.ok());
  ASSERT_EQ(whole->size(), 1U);
  EXPECT_EQ(whole->front().filename(), stem.filename().string() + ".csv");
  EXPECT_EQ(FileText(whole->front()), "c\n0.1\n1e+17\n-0.5;0.25\n'-x\n inf\n");
  stem = TestFile("parts");
  const Result<std::vector<std::filesystem::path>> parts = WriteCsvParts(stem, table, 2);
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->size(), 3U);
  EXPECT_EQ(parts->back().filename(), stem.filename().string() + "_part_3.csv");
  EXPECT_EQ(FileText(parts->back()), "c\n inf\n");
}

TEST(WriteCsv, QuotesWhereTheStandardAsksForIt) {
  const Table table = OneColumn({Cell::Text("plain"), Cell::Text("a,b"), Cell::Text("say \"x\""),
                                 Cell::Text("two\nlines"), Cell::Text(""), Cell::Text("\u4f60")});
  EXPECT_EQ(Csv(table),
            "\xEF\xBB\xBF"
            "c\r\nplain\r\n\"a,b\"\r\n\"say \"\"x\"\"\"\r\n\"two\nlines\"\r\n\r\n\u4f60\r\n");
}

TEST(WriteCsv, SpellsNumbersAndEmptyCells) {
  const Table table =
      OneColumn({Cell::Integer(-7), Cell::Number(0.1), Cell(), Cell::Boolean(true)});
  EXPECT_EQ(Csv(table),
            "\xEF\xBB\xBF"
            "c\r\n-7\r\n0.1\r\n\r\nTRUE\r\n");
}

TEST(WriteCsv, DisarmsWhatASpreadsheetWouldTakeForAFormula) {
  const Table table = OneColumn({Cell::Text("=1+1"), Cell::Text("@x"), Cell::Text("+cmd|x"),
                                 Cell::Text("-2+3"), Cell::Text("=\"a\",b")});
  EXPECT_EQ(Csv(table),
            "\xEF\xBB\xBF"
            "c\r\n'=1+1\r\n'@x\r\n'+cmd|x\r\n'-2+3\r\n\"'=\"\"a\"\",b\"\r\n");
}

TEST(WriteCsv, LeavesNumbersInTextAlone) {
  const Table table =
      OneColumn({Cell::Text("-inf\t"), Cell::Text("-1.5"), Cell::Text("-"), Cell::Text("nan")});
  EXPECT_EQ(Csv(table),
            "\xEF\xBB\xBF"
            "c\r\n-inf\t\r\n-1.5\r\n-\r\nnan\r\n");
}

TEST(WriteJsonLines, WritesOneObjectPerRow) {
  Table table("t", {"name", "value"});
  const std::vector<Cell> first = {Cell::Text("a \"b\"\n\u4f60"), Cell::Integer(3)};
  const std::vector<Cell> second = {Cell(), Cell::Number(0.5)};
  const std::vector<Cell> third = {Cell::Boolean(false), Cell::Boolean(true)};
  table.AddRow(first, Fill::kRed);
  table.AddRow(second, Fill::kYellow);
  table.AddRow(third);
  const std::filesystem::path path = TestFile("t.jsonl");
  ASSERT_TRUE(WriteJsonLines(path, table).ok());
  EXPECT_EQ(FileText(path),
            "{\"name\": \"a \\\"b\\\"\\n\\u4f60\", \"value\": 3, \"highlight\": \"red\"}\n"
            "{\"name\": null, \"value\": 0.5, \"highlight\": \"yellow\"}\n"
            "{\"name\": false, \"value\": true}\n");
}

TEST(TextWriters, LeaveNothingBehindWhereTheFolderIsMissing) {
  const Table table("t", {"c"});
  EXPECT_EQ(WriteCsv("/nonexistent/x.csv", table).code(), StatusCode::kNotFound);
  EXPECT_EQ(WriteJsonLines("/nonexistent/x.jsonl", table).code(), StatusCode::kNotFound);
}

// Rows that are made when they are written, against the same rows in memory.
TEST(WriteTables, MadeInBlocksAreTheSameBytesForAnyNumberOfThreads) {
  const std::vector<std::string> columns = {"name", "value", "note"};
  const auto add = [](size_t first, size_t count, Table& rows) {
    for (size_t row = first; row < first + count; ++row) {
      rows.AddRow(
          {rows.KeepText("row." + std::to_string(row)), Cell::Number(static_cast<double>(row) / 7),
           row % 3 == 0 ? Cell::Text("a, \"b\"") : Cell()},
          row % 5 == 0 ? Fill::kRed : Fill::kNone);
    }
  };
  for (const size_t count : {size_t{0}, size_t{1}, size_t{2048}, size_t{5000}, size_t{30'000}}) {
    Table whole("t", columns);
    add(0, count, whole);
    const Table blocks("t", columns, count, count * 32, add);
    EXPECT_EQ(blocks.row_count(), count);
    const std::filesystem::path path = TestFile("made.csv");
    base::SetExistingFiles(base::Existing::kReplace);
    ASSERT_TRUE(WriteCsv(path, whole).ok());
    const std::string csv = FileText(path);
    ASSERT_TRUE(WriteJsonLines(path, whole).ok());
    const std::string json = FileText(path);
    EXPECT_EQ(json, JsonLinesText(whole));
    std::string workbook;
    for (const size_t threads : {1, 2, 7}) {
      base::ThreadPool pool(threads);
      for (const Table* table : {static_cast<const Table*>(&whole), &blocks}) {
        ASSERT_TRUE(WriteCsv(path, *table, &pool).ok());
        EXPECT_EQ(FileText(path), csv) << count << " rows, " << threads << " threads";
        ASSERT_TRUE(WriteJsonLines(path, *table, &pool).ok());
        EXPECT_EQ(FileText(path), json) << count << " rows, " << threads << " threads";
      }
      const Table* const sheets[] = {&blocks};
      ASSERT_TRUE(WriteXlsx(path, sheets, {}, pool).ok());
      const std::string made = FileText(path);
      EXPECT_TRUE(workbook.empty() || workbook == made) << count << " rows, " << threads;
      workbook = made;
    }
  }
}

}  // namespace
}  // namespace msprobe::report
