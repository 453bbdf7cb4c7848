#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/output_files.h"
#include "src/io/zip.h"
#include "src/report/xlsx_writer.h"
#include "tests/unit/report/sample.h"

namespace msprobe::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

FormattedTable Sample() {
  FormattedTable formatted;
  formatted.table = Table("Times", {"Index", "ms", "Ratio"});
  formatted.columns = {{40, NumberFormat::kInteger, true, Shade::kGreen, false},
                       {20, NumberFormat::kFixed2, false, Shade::kYellow, false},
                       {10, NumberFormat::kPercent, false, Shade::kGreen, true}};
  formatted.titles = {{0, 1, "Base Profiling: a & b", Shade::kGreen}};
  const std::vector<Cell> first = {Cell::Text("\tMatmul"), Cell::Number(1.5), Cell::Number(1.25)};
  const std::vector<Cell> second = {Cell::Text("a\r\nb"), Cell(), Cell::Number(1.0)};
  const std::vector<Cell> third = {Cell::Text("=1+1"), Cell::Number(std::nan("")),
                                   Cell::Number(std::numeric_limits<double>::infinity())};
  formatted.table.AddRow(first);
  formatted.table.AddRow(second);
  formatted.table.AddRow(third);
  formatted.row_shades = {Shade::kLightSky, Shade::kNone, Shade::kNone};
  formatted.row_indents = {1, 0, 0};
  return formatted;
}

std::string Member(const std::string& file, std::string_view name) {
  const Result<io::ZipArchive> archive =
      io::ZipArchive::Open(std::as_bytes(std::span<const char>(file.data(), file.size())));
  const io::ZipEntry* entry = archive.ok() ? archive->Find(name) : nullptr;
  if (entry == nullptr) {
    return "no such member";
  }
  const Result<io::ZipBytes> content = archive->Read(*entry, uint64_t{1} << 30U, true);
  return content.ok() ? std::string(content->text()) : content.status().message();
}

std::string Written(const FormattedTable& formatted, size_t threads = 1) {
  base::ThreadPool pool(threads);
  const std::filesystem::path path = TestFile("f.xlsx");
  const FormattedTable* const sheets[] = {&formatted};
  msprobe::base::SetExistingFiles(msprobe::base::Existing::kReplace);
  const Status status = WriteFormattedXlsx(path, sheets, pool);
  return status.ok() ? FileText(path) : status.message();
}

// The number of the format that a cell refers to, and that format's entry in the styles.
std::string FormatOf(const std::string& file, std::string_view cell) {
  const std::string sheet = Member(file, "xl/worksheets/sheet1.xml");
  const size_t at = sheet.find("<c r=\"" + std::string(cell) + "\" s=\"");
  if (at == std::string::npos) {
    return "no such cell";
  }
  const size_t number = std::stoul(sheet.substr(at + 11 + cell.size()));
  const std::string styles = Member(file, "xl/styles.xml");
  size_t entry = styles.find("<cellXfs");
  for (size_t i = 0; i <= number; ++i) {
    entry = styles.find("<xf ", entry + 1);
  }
  return styles.substr(entry, styles.find("</xf>", entry) - entry);
}

TEST(WriteFormattedXlsx, PutsTitlesOverTheColumnsAndDataIntoRowFour) {
  const std::string sheet = Member(Written(Sample()), "xl/worksheets/sheet1.xml");
  EXPECT_THAT(sheet, HasSubstr("<t>Base Profiling: a &amp; b</t>"));
  EXPECT_THAT(sheet, HasSubstr("<mergeCell ref=\"A1:B1\"/>"));
  EXPECT_THAT(sheet, HasSubstr("<row r=\"3\"><c r=\"A3\""));
  EXPECT_THAT(sheet, HasSubstr("<row r=\"4\"><c r=\"A4\""));
  EXPECT_THAT(sheet, HasSubstr("<col min=\"1\" max=\"1\" width=\"40.7109375\""));
  EXPECT_THAT(sheet, HasSubstr("ySplit=\"3\""));
}

TEST(WriteFormattedXlsx, GivesCellsTheFormatOfTheirColumnAndTheShadeOfTheirRow) {
  const std::string file = Written(Sample());
  EXPECT_THAT(FormatOf(file, "B5"), HasSubstr("numFmtId=\"4\" fontId=\"0\" fillId=\"0\""));
  EXPECT_THAT(FormatOf(file, "A4"), HasSubstr("numFmtId=\"3\" fontId=\"1\""));
  EXPECT_THAT(FormatOf(file, "A4"), HasSubstr("indent=\"1\""));
  EXPECT_THAT(FormatOf(file, "A4"), Not(HasSubstr("fillId=\"0\"")));
  EXPECT_THAT(FormatOf(file, "A5"), Not(HasSubstr("indent")));
  EXPECT_THAT(Member(file, "xl/styles.xml"), HasSubstr("FF87CEFA"));
}

TEST(WriteFormattedXlsx, MarksRatiosAboveOneOnly) {
  const std::string file = Written(Sample());
  EXPECT_EQ(FormatOf(file, "C4"), FormatOf(file, "C6"));
  EXPECT_NE(FormatOf(file, "C4"), FormatOf(file, "C5"));
  EXPECT_THAT(FormatOf(file, "C4"), HasSubstr("numFmtId=\"10\""));
  EXPECT_THAT(Member(file, "xl/styles.xml"), HasSubstr("FFFF0000"));
  EXPECT_THAT(Member(file, "xl/worksheets/sheet1.xml"), HasSubstr("<t>INF</t>"));
}

TEST(WriteFormattedXlsx, EscapesControlsAsTheFormatHasIt) {
  const std::string sheet = Member(Written(Sample()), "xl/worksheets/sheet1.xml");
  EXPECT_THAT(sheet, HasSubstr("a_x000D_\nb"));
  EXPECT_THAT(sheet, HasSubstr("<t>=1+1</t>"));
  EXPECT_THAT(sheet, Not(HasSubstr("<f>")));
  EXPECT_THAT(sheet, Not(HasSubstr("nan")));
}

TEST(WriteFormattedXlsx, GivesTheSameBytesWithEveryNumberOfThreads) {
  FormattedTable large = Sample();
  large.row_shades.clear();
  large.row_indents.clear();
  for (int row = 0; row < 40'000; ++row) {
    const std::vector<Cell> cells = {large.table.KeepText("operator " + std::to_string(row)),
                                     Cell::Number(row * 0.1), Cell::Number(row % 3)};
    large.table.AddRow(cells);
  }
  EXPECT_EQ(Written(large, 1), Written(large, 3));
}

TEST(WriteFormattedXlsx, RefusesALayoutThatDoesNotFit) {
  FormattedTable formatted = Sample();
  formatted.titles.front().last_column = 3;
  EXPECT_THAT(Written(formatted), HasSubstr("does not fit"));
  formatted = Sample();
  formatted.columns.pop_back();
  EXPECT_THAT(Written(formatted), HasSubstr("does not fit"));
}

}  // namespace
}  // namespace msprobe::report
