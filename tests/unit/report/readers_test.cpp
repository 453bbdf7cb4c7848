#include "src/report/readers.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/zip.h"
#include "src/report/writers.h"
#include "tests/unit/report/sample.h"

namespace msprobe::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> RowTexts(const Table& table, size_t row) {
  std::vector<std::string> texts;
  for (const Cell& cell : table.row(row)) {
    texts.push_back(CellText(cell));
  }
  return texts;
}

// A workbook of one sheet with this XML between <sheetData> and </sheetData>, as a hostile or
// foreign writer might make it.
std::string Workbook(std::string_view rows, std::string_view shared_strings = "",
                     std::string_view sheet_head = "", size_t sheets = 1) {
  const std::filesystem::path path = TestFile("made.xlsx");
  Result<base::AtomicFile> file = base::AtomicFile::Create(path);
  io::ZipWriter zip(*file);
  std::string names;
  for (size_t sheet = 1; sheet <= sheets; ++sheet) {
    names += fmt::format("<x:sheet name='S{0}' sheetId='{0}' r:id='r1'/>", sheet);
  }
  EXPECT_TRUE(zip.AddStored("xl/workbook.xml",
                            fmt::format("<x:workbook xmlns:x='a' xmlns:r='b'><x:sheets>{}"
                                        "</x:sheets></x:workbook>",
                                        names))
                  .ok());
  EXPECT_TRUE(
      zip.AddStored(
             "xl/_rels/workbook.xml.rels",
             "<Relationships><Relationship Id='r1' Type='x/worksheet' Target='../xl/s.xml'/>"
             "<Relationship Id='r2' Type='x/sharedStrings' Target='/xl/ss.xml'/></Relationships>")
          .ok());
  EXPECT_TRUE(zip.AddStored("xl/ss.xml", fmt::format("<sst>{}</sst>", shared_strings)).ok());
  EXPECT_TRUE(
      zip.AddStored("xl/s.xml", fmt::format("{}<worksheet><sheetData>{}</sheetData></worksheet>",
                                            sheet_head, rows))
          .ok());
  EXPECT_TRUE(zip.Finish().ok());
  EXPECT_TRUE(file->Commit().ok());
  return FileText(path);
}

Result<std::vector<Table>> Read(const std::string& file, const ReadLimits& limits = {}) {
  return ReadXlsxBytes(std::as_bytes(std::span<const char>(file.data(), file.size())), limits);
}

std::string ErrorOf(const std::string& file, const ReadLimits& limits = {}) {
  const Result<std::vector<Table>> tables = Read(file, limits);
  return tables.ok() ? "no error" : tables.status().message();
}

TEST(ReadXlsx, GivesBackWhatOurWriterWrote) {
  Table table("stats", {"name", "value", "text"});
  const std::vector<std::vector<Cell>> rows = {
      {Cell::Text("a<b>&\"c\""), Cell::Integer(-5), Cell::Text("-inf\t")},
      {Cell::Text(""), Cell::Number(0.1), Cell()},
      {Cell::Text(" \u4f60\n\r\U0001F600 "), Cell::Number(1e300), Cell::Text("=1+1")}};
  for (const std::vector<Cell>& row : rows) {
    table.AddRow(row, Fill::kRed);
  }
  const Table second("other", {"only"});
  const std::filesystem::path path = TestFile("t.xlsx");
  base::ThreadPool pool(1);
  const std::vector<const Table*> sheets = {&table, &second};
  ASSERT_TRUE(WriteXlsx(path, sheets, {}, pool).ok());

  const Result<std::vector<Table>> read = ReadXlsx(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), 2U);
  const Table& back = read->front();
  EXPECT_EQ(back.name(), "stats");
  EXPECT_EQ(back.columns(), table.columns());
  ASSERT_EQ(back.row_count(), 3U);
  for (size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(RowTexts(back, row), RowTexts(table, row));
    for (size_t column = 0; column < 3; ++column) {
      EXPECT_EQ(back.row(row)[column].kind(), rows[row][column].kind());
    }
  }
  EXPECT_EQ(read->back().name(), "other");
  EXPECT_EQ(read->back().row_count(), 0U);
}

TEST(ReadXlsx, UnderstandsEveryKindOfCell) {
  const std::string file = Workbook(
      "<row><c t='s'><v>0</v></c><c t='s'><v>1</v></c><c t='str'><f>A1</f><v>f</v></c><c "
      "t='b'><v>1</v></c>"
      "<c t='e'><v>#N/A</v></c><c t='n'><v>2.5</v></c><c><v>7</v></c><c s='3'/></row>"
      "<row><c r='B2' t='inlineStr'><is><r><t>rich "
      "</t></r><r><t>text</t></r><rPh><t>no</t></rPh></is></c>"
      "<c t='b'><v>0</v></c><c r='D2'><f>1+1</f><v>2</v></c></row>",
      "<si><t>zero</t></si><si><r><t>o</t></r><r><t>ne</t></r><rPh><t>no</t></rPh></si>");
  const Result<std::vector<Table>> tables = Read(file);
  ASSERT_TRUE(tables.ok()) << tables.status().message();
  const Table& table = tables->front();
  EXPECT_EQ(table.name(), "S1");
  EXPECT_THAT(table.columns(), ElementsAre("zero", "one", "f", "True", "#N/A", "2.5", "7"));
  EXPECT_THAT(RowTexts(table, 0), ElementsAre("", "rich text", "False", "2", "", "", ""));
}

TEST(ReadXlsx, NamesColumnsThatTheHeaderDoesNotReach) {
  const Result<std::vector<Table>> tables =
      Read(Workbook("<row><c><v>1</v></c></row><row><c r='C2'><v>2</v></c></row>"));
  ASSERT_TRUE(tables.ok());
  EXPECT_THAT(tables->front().columns(), ElementsAre("1", "Column B", "Column C"));
}

TEST(ReadXlsx, RefusesDocumentTypesAndSoEveryEntityBomb) {
  const std::string file = Workbook("<row><c t='str'><v>&b;</v></c></row>", "",
                                    "<!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;'>]>");
  EXPECT_THAT(ErrorOf(file), HasSubstr("sheet \"S1\": line 1: document type declarations"));
  EXPECT_THAT(ErrorOf(Workbook("<row><c t='str'><v>&nope;</v></c></row>")),
              HasSubstr("not valid XML"));
}

TEST(ReadXlsx, RefusesReferencesThatLeadNowhere) {
  EXPECT_THAT(ErrorOf(Workbook("<row><c t='s'><v>5</v></c></row>")),
              HasSubstr("shared string 5 does not exist"));
  EXPECT_THAT(ErrorOf(Workbook("<row><c t='s'><v>-1</v></c></row>")),
              HasSubstr("shared string -1"));
  EXPECT_THAT(ErrorOf(Workbook("<row><c r='12'><v>1</v></c></row>")),
              HasSubstr("invalid cell reference \"12\""));
  EXPECT_THAT(ErrorOf(Workbook("<row><c r='XFE1'><v>1</v></c></row>")),
              HasSubstr("invalid cell reference"));
  EXPECT_THAT(ErrorOf(Workbook("<row><c r='XFD1'/><c><v>1</v></c></row>")),
              HasSubstr("16384 columns"));
  EXPECT_THAT(ErrorOf(Workbook("<c><v>1</v></c>")), HasSubstr("outside of a row"));
}

TEST(ReadXlsx, RefusesTablesThatUnfoldToManyCells) {
  std::string rows = "<row><c r='XFD1'><v>1</v></c></row>";
  for (int i = 0; i < 5000; ++i) {
    rows += "<row/>";
  }
  EXPECT_THAT(ErrorOf(Workbook(rows)), HasSubstr("5001 rows of 16384 columns"));
  ReadLimits limits;
  limits.cells = 2;
  EXPECT_THAT(ErrorOf(Workbook("<row><c><v>1</v></c><c><v>1</v></c><c><v>1</v></c></row>"), limits),
              HasSubstr("cells"));
  limits = {};
  limits.total_bytes = 300;
  EXPECT_THAT(ErrorOf(Workbook("<row/>"), limits), HasSubstr("more than 300 bytes"));
}

TEST(ReadXlsx, RefusesSheetsThatAreOneMemberVeryOften) {
  const std::string rows = "<row><c><v>1</v></c></row>" + std::string(100'000, ' ');
  ReadLimits limits;
  limits.free_bytes = 0;
  EXPECT_EQ(Read(Workbook(rows, "", "", 60), limits)->size(), 60U);
  EXPECT_THAT(ErrorOf(Workbook(rows, "", "", 70), limits), HasSubstr("bytes together"));
  EXPECT_EQ(ErrorOf(Workbook(rows, "", "", 70)), "no error");
}

TEST(ReadXlsx, RefusesDeepAndBrokenXml) {
  std::string deep;
  for (int i = 0; i < 300; ++i) {
    deep += "<a>";
  }
  EXPECT_THAT(ErrorOf(Workbook(deep)), HasSubstr("nested elements"));
  EXPECT_THAT(ErrorOf(Workbook("<row>")), HasSubstr("not valid XML"));
  EXPECT_THAT(ErrorOf("not a zip file"), HasSubstr("zip"));
}

TEST(ReadXlsx, SurvivesEveryTruncation) {
  const std::string whole = Workbook("<row><c t='s'><v>0</v></c></row>", "<si><t>x</t></si>");
  ASSERT_EQ(ErrorOf(whole), "no error");
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(ErrorOf(whole.substr(0, length)), "no error");
  }
}

TEST(ReadXlsx, NamesTheFile) {
  EXPECT_THAT(ReadXlsx("/nonexistent.xlsx").status().message(), HasSubstr("/nonexistent.xlsx"));
  const std::filesystem::path path = TestFile("empty.xlsx");
  ASSERT_TRUE(base::WriteFileAtomically(path, "").ok());
  EXPECT_THAT(ReadXlsx(path).status().message(), HasSubstr(path.string()));
}

TEST(ReadCsv, GivesBackWhatOurWriterWrote) {
  Table table("t", {"a", "b"});
  const std::vector<Cell> row = {Cell::Text("x,\"y\"\r\nz"), Cell::Integer(5)};
  table.AddRow(row);
  const std::filesystem::path path = TestFile("t.csv");
  ASSERT_TRUE(WriteCsv(path, table).ok());
  const Result<Table> back = ReadCsv(path);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->name(), path.stem().string());
  EXPECT_THAT(back->columns(), ElementsAre("a", "b"));
  EXPECT_THAT(RowTexts(*back, 0), ElementsAre("x,\"y\"\r\nz", "5"));
}

TEST(ReadCsv, TakesEveryLineEndAndRaggedRows) {
  const Result<Table> table = ReadCsvText("a,b\r\n1\n\r2,3,4\r\n\"\",", "t");
  ASSERT_TRUE(table.ok());
  EXPECT_THAT(table->columns(), ElementsAre("a", "b", "Column C"));
  ASSERT_EQ(table->row_count(), 4U);
  EXPECT_THAT(RowTexts(*table, 0), ElementsAre("1", "", ""));
  EXPECT_THAT(RowTexts(*table, 1), ElementsAre("", "", ""));
  EXPECT_THAT(RowTexts(*table, 2), ElementsAre("2", "3", "4"));
  EXPECT_THAT(RowTexts(*table, 3), ElementsAre("", "", ""));
}

TEST(ReadCsv, RefusesATableThatIsNearlyAllGaps) {
  const auto read = [](size_t rows) {
    // A wide header, and rows of one cell.
    return ReadCsvText("a" + std::string(8000, ',') + std::string(rows, '\n') + "1", "t");
  };
  // 33 columns for each of its cells, and four million.
  EXPECT_EQ(read(500)->row_count(), 500U);
  EXPECT_THAT(read(8000).status().message(), HasSubstr("rows of 8001 columns with only"));
  // Its own size in cells is no reason to refuse a table.
  std::string full;
  for (int i = 0; i < 1000; ++i) {
    full += std::string(8000, ',') + "\n";
  }
  EXPECT_EQ(ReadCsvText(full, "t")->row_count(), 999U);
}

TEST(ReadCsv, RefusesLongNamesAboveVeryManyRows) {
  std::string rows = "\n";
  for (int i = 0; i < 2000; ++i) {
    rows += "1,2\n";
  }
  EXPECT_THAT(ReadCsvText(std::string(100'000, 'a') + ",b" + rows, "t").status().message(),
              HasSubstr("rows below names of columns that have 100001 bytes"));
  EXPECT_EQ(ReadCsvText(std::string(1000, 'a') + ",b" + rows, "t")->row_count(), 2000U);
}

TEST(ReadCsv, NamesTheRowOfAnError) {
  EXPECT_THAT(ReadCsvText("a\n\"x", "t").status().message(),
              HasSubstr("row 2: unterminated quoted cell"));
  EXPECT_THAT(ReadCsvText("\"x\"y\n", "t").status().message(), HasSubstr("row 1: text follows"));
}

TEST(ReadCsv, TakesAnEmptyFileAsATableWithoutColumns) {
  const Result<Table> table = ReadCsvText("\xEF\xBB\xBF", "t");
  ASSERT_TRUE(table.ok());
  EXPECT_TRUE(table->columns().empty());
  EXPECT_EQ(table->row_count(), 0U);
}

}  // namespace
}  // namespace msprobe::report
