// A workbook is a zip of XML files; the sheets are the large ones and are made and compressed in
// blocks of rows.
#include <algorithm>
#include <array>
#include <set>
#include <string>

#include <fmt/format.h>

#include "src/report/writers.h"
#include "src/report/xlsx_cells.h"
#include "src/report/zip_writer.h"

namespace msprobe::report {
namespace {

// About 1 MB of XML for a table of twenty columns.
constexpr size_t kRowsPerBlock = 1024;
constexpr size_t kMaxSheetNameUnits = 31;

constexpr std::string_view kXmlHeader =
    "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
constexpr std::string_view kMainNamespace =
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
constexpr std::string_view kRelationNamespace =
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
constexpr std::string_view kPackageNamespace = "http://schemas.openxmlformats.org/package/2006";

// One part of a table that fits a sheet.
struct SheetPart {
  const Table* table = nullptr;
  size_t first_row = 0;
  size_t row_count = 0;
  std::string name;
};

std::string ColumnLetters(size_t index) {
  std::string letters;
  for (size_t rest = index + 1; rest > 0; rest = (rest - 1) / 26) {
    letters.insert(letters.begin(), static_cast<char>('A' + (rest - 1) % 26));
  }
  return letters;
}

// Valid, at most 31 characters with `suffix`, and unlike every name in `taken` (spreadsheets ignore
// case).
std::string SheetName(std::string_view wanted, std::string_view suffix,
                      std::set<std::string>& taken) {
  for (size_t attempt = 1;; ++attempt) {
    const std::string end =
        attempt == 1 ? std::string(suffix) : fmt::format("{}~{}", suffix, attempt);
    std::string name;
    // Cut at characters: what follows a lead byte belongs to it.
    for (size_t at = 0; at < wanted.size() && name.size() + end.size() < kMaxSheetNameUnits;) {
      size_t next = at + 1;
      while (next < wanted.size() && (static_cast<unsigned char>(wanted[next]) & 0xC0U) == 0x80U) {
        ++next;
      }
      const bool forbidden =
          std::string_view("[]:*?/\\").find(wanted[at]) != std::string_view::npos;
      name += forbidden ? std::string_view("_") : wanted.substr(at, next - at);
      at = next;
    }
    if (name.empty()) {
      name = "Sheet";
    }
    name += end;
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
      return static_cast<char>(c < 0x80 ? std::tolower(c) : c);
    });
    if (taken.insert(lower).second) {
      return name;
    }
  }
}

std::vector<SheetPart> SplitIntoSheets(std::span<const Table* const> tables,
                                       size_t rows_per_sheet) {
  std::vector<SheetPart> parts;
  std::set<std::string> taken;
  for (const Table* table : tables) {
    size_t first = 0;
    for (size_t number = 1; number == 1 || first < table->row_count(); ++number) {
      const size_t count = std::min(rows_per_sheet, table->row_count() - first);
      const std::string suffix = number == 1 ? std::string() : fmt::format("_{}", number);
      parts.push_back({table, first, count, SheetName(table->name(), suffix, taken)});
      first += count;
    }
  }
  return parts;
}

std::string ContentTypes(size_t sheets) {
  std::string xml(kXmlHeader);
  xml += fmt::format(
      "<Types xmlns=\"{}/content-types\">"
      "<Default Extension=\"rels\" "
      "ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>"
      "<Default Extension=\"xml\" ContentType=\"application/xml\"/>"
      "<Override PartName=\"/xl/workbook.xml\" "
      "ContentType=\"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml\"/>"
      "<Override PartName=\"/xl/styles.xml\" "
      "ContentType=\"application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml\"/>",
      kPackageNamespace);
  for (size_t i = 1; i <= sheets; ++i) {
    xml += fmt::format(
        "<Override PartName=\"/xl/worksheets/sheet{}.xml\" "
        "ContentType=\"application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml\"/"
        ">",
        i);
  }
  return xml + "</Types>";
}

std::string PackageRelations() {
  return fmt::format(
      "{}<Relationships xmlns=\"{}/relationships\"><Relationship Id=\"rId1\" "
      "Type=\"{}/officeDocument\" "
      "Target=\"xl/workbook.xml\"/></Relationships>",
      kXmlHeader, kPackageNamespace, kRelationNamespace);
}

std::string Workbook(std::span<const SheetPart> parts, const XlsxOptions& options) {
  std::string xml = fmt::format("{}<workbook xmlns=\"{}\" xmlns:r=\"{}\"><sheets>", kXmlHeader,
                                kMainNamespace, kRelationNamespace);
  for (size_t i = 0; i < parts.size(); ++i) {
    xml += "<sheet name=\"";
    AppendXmlText(parts[i].name, kMaxSheetNameUnits, xml);
    xml += fmt::format("\" sheetId=\"{0}\" r:id=\"rId{0}\"/>", i + 1);
  }
  xml += "</sheets>";
  if (options.autofilter) {
    // Spreadsheets look a filter's range up under this hidden name.
    xml += "<definedNames>";
    for (size_t i = 0; i < parts.size(); ++i) {
      std::string quoted;
      for (const char c : parts[i].name) {
        quoted += c == '\'' ? std::string("''") : std::string(1, c);
      }
      xml += fmt::format(
          "<definedName name=\"_xlnm._FilterDatabase\" localSheetId=\"{}\" hidden=\"1\">'", i);
      AppendXmlText(quoted, 2 * kMaxSheetNameUnits, xml);
      xml +=
          fmt::format("'!$A$1:${}${}</definedName>",
                      ColumnLetters(parts[i].table->columns().size() - 1), parts[i].row_count + 1);
    }
    xml += "</definedNames>";
  }
  return xml + "</workbook>";
}

std::string WorkbookRelations(size_t sheets) {
  std::string xml =
      fmt::format("{}<Relationships xmlns=\"{}/relationships\">", kXmlHeader, kPackageNamespace);
  for (size_t i = 1; i <= sheets; ++i) {
    xml += fmt::format(
        "<Relationship Id=\"rId{0}\" Type=\"{1}/worksheet\" Target=\"worksheets/sheet{0}.xml\"/>",
        i, kRelationNamespace);
  }
  xml += fmt::format(
      "<Relationship Id=\"rId{}\" Type=\"{}/styles\" Target=\"styles.xml\"/></Relationships>",
      sheets + 1, kRelationNamespace);
  return xml;
}

// The cell formats in the order of XlsxStyle.
std::string Styles() {
  return fmt::format(
      "{}<styleSheet xmlns=\"{}\">"
      "<fonts count=\"2\"><font><sz val=\"11\"/><name val=\"Calibri\"/></font>"
      "<font><b/><sz val=\"11\"/><name val=\"Calibri\"/></font></fonts>"
      "<fills count=\"4\"><fill><patternFill patternType=\"none\"/></fill>"
      "<fill><patternFill patternType=\"gray125\"/></fill>"
      "<fill><patternFill patternType=\"solid\"><fgColor rgb=\"00FFFF00\"/><bgColor "
      "rgb=\"00FFFF00\"/></patternFill></fill>"
      "<fill><patternFill patternType=\"solid\"><fgColor rgb=\"FFFF0000\"/><bgColor "
      "rgb=\"FFFF0000\"/></patternFill></fill>"
      "</fills>"
      "<borders count=\"2\"><border><left/><right/><top/><bottom/><diagonal/></border>"
      "<border><left style=\"thin\"/><right style=\"thin\"/><top style=\"thin\"/><bottom "
      "style=\"thin\"/><diagonal/></border>"
      "</borders>"
      "<cellStyleXfs count=\"1\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" "
      "borderId=\"0\"/></cellStyleXfs>"
      "<cellXfs count=\"4\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\" "
      "xfId=\"0\"/>"
      "<xf numFmtId=\"0\" fontId=\"0\" fillId=\"2\" borderId=\"0\" xfId=\"0\" applyFill=\"1\"/>"
      "<xf numFmtId=\"0\" fontId=\"0\" fillId=\"3\" borderId=\"0\" xfId=\"0\" applyFill=\"1\"/>"
      "<xf numFmtId=\"0\" fontId=\"1\" fillId=\"0\" borderId=\"1\" xfId=\"0\" applyFont=\"1\" "
      "applyBorder=\"1\" "
      "applyAlignment=\"1\"><alignment horizontal=\"center\" vertical=\"top\"/></xf></cellXfs>"
      "<cellStyles count=\"1\"><cellStyle name=\"Normal\" xfId=\"0\" "
      "builtinId=\"0\"/></cellStyles></styleSheet>",
      kXmlHeader, kMainNamespace);
}

std::string SheetBegin(const SheetPart& part, const XlsxOptions& options) {
  std::string xml = fmt::format("{}<worksheet xmlns=\"{}\">", kXmlHeader, kMainNamespace);
  if (options.freeze_header) {
    xml +=
        "<sheetViews><sheetView workbookViewId=\"0\"><pane ySplit=\"1\" topLeftCell=\"A2\" "
        "activePane=\"bottomLeft\" "
        "state=\"frozen\"/></sheetView></sheetViews>";
  }
  xml += "<sheetData>";
  std::vector<Cell> header;
  for (const std::string& column : part.table->columns()) {
    header.push_back(Cell::Text(column));
  }
  AppendXlsxRow(header, 1, options.styled_header ? XlsxStyle::kHeader : XlsxStyle::kPlain, xml);
  return xml;
}

std::string SheetEnd(const SheetPart& part, const XlsxOptions& options) {
  std::string xml = "</sheetData>";
  if (options.autofilter && !part.table->columns().empty()) {
    xml += fmt::format("<autoFilter ref=\"A1:{}{}\"/>",
                       ColumnLetters(part.table->columns().size() - 1), part.row_count + 1);
  }
  return xml + "</worksheet>";
}

XlsxStyle StyleOf(Fill fill) {
  switch (fill) {
    case Fill::kNone:
      return XlsxStyle::kPlain;
    case Fill::kYellow:
      return XlsxStyle::kYellow;
    case Fill::kRed:
      return XlsxStyle::kRed;
  }
  return XlsxStyle::kPlain;
}

Status AddSheet(ZipWriter& zip, size_t number, const SheetPart& part, const XlsxOptions& options,
                base::ThreadPool& pool) {
  const size_t blocks = std::max<size_t>(1, (part.row_count + kRowsPerBlock - 1) / kRowsPerBlock);
  const auto make_block = [&](size_t block, std::string& out) {
    if (block == 0) {
      out += SheetBegin(part, options);
    }
    const size_t begin = block * kRowsPerBlock;
    const size_t end = std::min(begin + kRowsPerBlock, part.row_count);
    for (size_t i = begin; i < end; ++i) {
      const size_t row = part.first_row + i;
      AppendXlsxRow(part.table->row(row), i + 2, StyleOf(part.table->fill(row)), out);
    }
    if (block + 1 == blocks) {
      out += SheetEnd(part, options);
    }
  };
  return zip.AddMemberInBlocks(fmt::format("xl/worksheets/sheet{}.xml", number), blocks, make_block,
                               pool);
}

}  // namespace

Status WriteXlsx(const std::filesystem::path& path, std::span<const Table* const> sheets,
                 const XlsxOptions& options, base::ThreadPool& pool) {
  const std::vector<SheetPart> parts = SplitIntoSheets(sheets, options.rows_per_sheet);
  MSP_ASSIGN_OR_RETURN(ZipWriter zip, ZipWriter::Create(path));
  MSP_RETURN_IF_ERROR(zip.AddMember("[Content_Types].xml", ContentTypes(parts.size())));
  MSP_RETURN_IF_ERROR(zip.AddMember("_rels/.rels", PackageRelations()));
  MSP_RETURN_IF_ERROR(zip.AddMember("xl/workbook.xml", Workbook(parts, options)));
  MSP_RETURN_IF_ERROR(zip.AddMember("xl/_rels/workbook.xml.rels", WorkbookRelations(parts.size())));
  MSP_RETURN_IF_ERROR(zip.AddMember("xl/styles.xml", Styles()));
  for (size_t i = 0; i < parts.size(); ++i) {
    MSP_RETURN_IF_ERROR(AddSheet(zip, i + 1, parts[i], options, pool));
  }
  return zip.Commit();
}

}  // namespace msprobe::report
