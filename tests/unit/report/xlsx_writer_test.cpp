#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/output_files.h"
#include "src/io/zip.h"
#include "src/report/sheet_xml.h"
#include "src/report/writers.h"
#include "tests/unit/report/sample.h"

namespace msprobe::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The content of one member of a workbook.
std::string BookMember(const std::string& file, std::string_view name) {
  const auto bytes = std::as_bytes(std::span<const char>(file.data(), file.size()));
  const Result<io::ZipArchive> archive = io::ZipArchive::Open(bytes);
  if (!archive.ok()) {
    return archive.status().message();
  }
  const io::ZipEntry* entry = archive->Find(name);
  if (entry == nullptr) {
    return "no such member";
  }
  const Result<io::ZipBytes> content = archive->Read(*entry, uint64_t{1} << 30U, true);
  return content.ok() ? std::string(content->text()) : content.status().message();
}

std::string Write(const std::vector<const Table*>& tables, const XlsxOptions& options = {},
                  size_t threads = 1) {
  base::ThreadPool pool(threads);
  const std::filesystem::path path = TestFile("t.xlsx");
  msprobe::base::SetExistingFiles(msprobe::base::Existing::kReplace);
  const Status status = WriteXlsx(path, tables, options, pool);
  return status.ok() ? FileText(path) : status.message();
}

std::string FirstSheet(const Table& table, const XlsxOptions& options = {}) {
  return BookMember(Write({&table}, options), "xl/worksheets/sheet1.xml");
}

Table OneCell(const Cell& cell, Fill fill = Fill::kNone) {
  Table table("Sheet", {"c"});
  table.AddRow(std::span<const Cell>(&cell, 1), fill);
  return table;
}

TEST(WriteXlsx, WritesInlineStringsAndNumbers) {
  Table table("Sheet", {"a", "b", "c", "d"});
  const std::vector<Cell> row = {Cell::Text("x"), Cell::Integer(5),
                                 Cell::Number(3.6860690116882324), Cell::Text("")};
  table.AddRow(row);
  EXPECT_THAT(
      FirstSheet(table),
      HasSubstr(
          "<row r=\"2\"><c r=\"A2\" t=\"inlineStr\"><is><t>x</t></is></c><c r=\"B2\"><v>5</v></c>"
          "<c r=\"C2\"><v>3.686069011688232</v></c><c r=\"D2\" "
          "t=\"inlineStr\"><is><t></t></is></c></row>"));
}

TEST(WriteXlsx, LeavesEmptyCellsOutUnlessTheyAreFilled) {
  EXPECT_THAT(FirstSheet(OneCell(Cell())), HasSubstr("<row r=\"2\"></row>"));
  EXPECT_THAT(FirstSheet(OneCell(Cell(), Fill::kRed)),
              HasSubstr("<row r=\"2\"><c r=\"A2\" s=\"2\"/></row>"));
}

TEST(WriteXlsx, WritesBooleansAsTheSpreadsheetsOwn) {
  EXPECT_THAT(FirstSheet(OneCell(Cell::Boolean(true))),
              HasSubstr("<c r=\"A2\" t=\"b\"><v>1</v></c>"));
  EXPECT_THAT(FirstSheet(OneCell(Cell::Boolean(false))),
              HasSubstr("<c r=\"A2\" t=\"b\"><v>0</v></c>"));
}

TEST(WriteXlsx, NeverWritesAFormula) {
  const std::string sheet = FirstSheet(OneCell(Cell::Text("=1+1")));
  EXPECT_THAT(sheet, HasSubstr("t=\"inlineStr\"><is><t>=1+1</t>"));
  EXPECT_THAT(sheet, Not(HasSubstr("<f>")));
}

TEST(WriteXlsx, KeepsBlanksThatAReaderWouldDrop) {
  EXPECT_THAT(FirstSheet(OneCell(Cell::Text("-inf\t"))),
              HasSubstr("<t xml:space=\"preserve\">-inf\t</t>"));
  EXPECT_THAT(FirstSheet(OneCell(Cell::Text(" x"))), HasSubstr("<t xml:space=\"preserve\"> x</t>"));
}

TEST(WriteXlsx, RepeatsTheHeaderOnEverySheetOfALongTable) {
  Table table("stats", {"n"});
  for (int64_t i = 0; i < 7; ++i) {
    const Cell cell = Cell::Integer(i);
    table.AddRow(std::span<const Cell>(&cell, 1));
  }
  XlsxOptions options;
  options.rows_per_sheet = 3;
  const std::string file = Write({&table}, options);
  EXPECT_THAT(BookMember(file, "xl/workbook.xml"),
              HasSubstr("<sheet name=\"stats_3\" sheetId=\"3\""));
  EXPECT_THAT(
      BookMember(file, "xl/worksheets/sheet3.xml"),
      HasSubstr(
          "<row r=\"1\"><c r=\"A1\" t=\"inlineStr\"><is><t>n</t></is></c></row>"
          "<row r=\"2\"><c r=\"A2\"><v>6</v></c></row></sheetData><autoFilter ref=\"A1:A2\"/>"));
  EXPECT_EQ(BookMember(file, "xl/worksheets/sheet4.xml"), "no such member");
}

TEST(WriteXlsx, GivesSheetsNamesThatSpreadsheetsAccept) {
  const Table forbidden("a/b[c]:*?\\", {"x"});
  const Table quoted("'q'", {"x"});
  const Table same("A/B[C]:*?\\", {"x"});
  const Table empty("", {"x"});
  const Table longest(std::string(40, 'n'), {"x"});
  const Table longest_again(std::string(50, 'n'), {"x"});
  const std::string workbook = BookMember(
      Write({&forbidden, &quoted, &same, &empty, &longest, &longest_again}), "xl/workbook.xml");
  EXPECT_THAT(workbook, HasSubstr("\"a_b_c_____\""));
  EXPECT_THAT(workbook, HasSubstr("\"_q_\""));
  EXPECT_THAT(workbook, HasSubstr("\"A_B_C______2\""));
  EXPECT_THAT(workbook, HasSubstr("\"Sheet\""));
  EXPECT_THAT(workbook, HasSubstr(fmt::format("\"{}\"", std::string(31, 'n'))));
  EXPECT_THAT(workbook, HasSubstr(fmt::format("\"{}_2\"", std::string(29, 'n'))));
}

TEST(WriteXlsx, GivesTheSameBytesWithEveryNumberOfThreads) {
  Table table("Sheet", {"name", "value"});
  for (int64_t i = 0; i < 60000; ++i) {
    const std::vector<Cell> row = {
        table.KeepText(fmt::format("Functional.linear.{}.forward.input.0", i)),
        Cell::Number(static_cast<double>(i) / 7.0)};
    table.AddRow(row, i % 11 == 0 ? Fill::kYellow : Fill::kNone);
  }
  const std::string item = Write({&table}, {}, 1);
  EXPECT_GT(item.size(), 100000U);
  EXPECT_EQ(item, Write({&table}, {}, 2));
  EXPECT_EQ(item, Write({&table}, {}, 7));
  EXPECT_THAT(BookMember(item, "xl/worksheets/sheet1.xml"), HasSubstr("<row r=\"60001\">"));
}

TEST(WriteXlsx, RefusesMoreColumnsThanASheetHas) {
  const Table table("Sheet", std::vector<std::string>(16385, "c"));
  EXPECT_THAT(Write({&table}), HasSubstr("16385 columns"));
}

TEST(WriteXlsx, LeavesNoFileBehindWhenItFails) {
  base::ThreadPool pool(1);
  const std::filesystem::path path = TestFile("none.xlsx");
  EXPECT_FALSE(WriteXlsx(path, {}, {}, pool).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(EscapeXml, EscapesMarkupAndReplacesWhatXmlForbids) {
  EXPECT_EQ(internal::EscapedXml("a<b>&\"c\"\r\n\t"), "a&lt;b&gt;&amp;&quot;c&quot;&#13;\n\t");
  EXPECT_EQ(internal::EscapedXml(std::string("\0\x01\x1b\x0b", 4)), "____");
  EXPECT_EQ(internal::EscapedXml("\u4f60\U0001F600\uFFFD"), "\u4f60\U0001F600\uFFFD");
  EXPECT_EQ(internal::EscapedXml("\xFFx\xED\xA0\x80y\xEF\xBF\xBF\xC3"), "_x_y__");
}

TEST(CutToCell, CountsUtf16Units) {
  const std::string ascii(40000, 'x');
  EXPECT_EQ(internal::CutToCell(ascii).size(), 32767U);
  EXPECT_EQ(internal::CutToCell(std::string(32767, 'x')).size(), 32767U);
  std::string faces;
  for (int i = 0; i < 20000; ++i) {
    faces += "\U0001F600";
  }
  EXPECT_EQ(internal::CutToCell(faces).size(), 16383U * 4);
}

TEST(ColumnName, CountsLikeASpreadsheet) {
  EXPECT_EQ(internal::ColumnName(0), "A");
  EXPECT_EQ(internal::ColumnName(25), "Z");
  EXPECT_EQ(internal::ColumnName(26), "AA");
  EXPECT_EQ(internal::ColumnName(701), "ZZ");
  EXPECT_EQ(internal::ColumnName(702), "AAA");
  EXPECT_EQ(internal::ColumnName(16383), "XFD");
}

TEST(WriteXlsx, SheetsMadeInBlocksHoldTheSameCells) {
  const std::vector<std::string> columns = {"name", "value"};
  const auto add = [](size_t first, size_t count, Table& rows) {
    for (size_t row = first; row < first + count; ++row) {
      rows.AddRow({rows.KeepText("row <" + std::to_string(row) + ">"),
                   Cell::Number(static_cast<double>(row) / 3)},
                  row % 7 == 0 ? Fill::kYellow : Fill::kNone);
    }
  };
  for (const size_t count : {size_t{0}, size_t{1}, size_t{99}, size_t{20'000}}) {
    Table whole("Sheet", columns);
    add(0, count, whole);
    const Table blocks("Sheet", columns, count, count * 16, add);
    EXPECT_EQ(FirstSheet(blocks), FirstSheet(whole)) << count;
    XlsxOptions parts;
    parts.rows_per_sheet = 7000;
    const std::string cut = Write({&blocks}, parts, 3);
    for (const char* name : {"xl/worksheets/sheet1.xml", "xl/worksheets/sheet3.xml"}) {
      EXPECT_EQ(BookMember(cut, name), BookMember(Write({&whole}, parts), name)) << count;
    }
  }
}

// What the quick way takes as it is, the slow one does not change.
TEST(IsPlainXml, HoldsOnlyForTextsThatNeedNothing) {
  for (int byte = 0; byte < 256; ++byte) {
    for (const size_t length : {1, 7, 8, 9, 20}) {
      for (size_t at = 0; at < length; ++at) {
        std::string text(length, 'x');
        text[at] = static_cast<char>(byte);
        if (internal::IsPlainXml(text)) {
          EXPECT_EQ(internal::EscapedXml(text), text) << byte;
          EXPECT_TRUE(text.front() != ' ' && text.back() != ' ') << length;
        } else {
          EXPECT_TRUE(byte <= ' ' || byte >= 0x7F ||
                      std::string("&<>\"").find(text[at]) != std::string::npos)
              << byte;
        }
      }
    }
  }
}

}  // namespace
}  // namespace msprobe::report
