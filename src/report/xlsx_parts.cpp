#include "src/report/xlsx_parts.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::report::internal {
namespace {

constexpr size_t kSheetNameUnits = 31;
constexpr std::string_view kXmlHead =
    "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
constexpr std::string_view kRelationTypes =
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

// The longest front of `text` with at most `units` UTF-16 units.
std::string_view FirstUnits(std::string_view text, size_t units) {
  size_t at = 0;
  while (at < text.size()) {
    const base::Utf8Char character = base::DecodeUtf8(text.substr(at));
    const size_t needed = character.bytes == 4 ? 2 : 1;
    if (needed > units) {
      break;
    }
    units -= needed;
    at += character.bytes;
  }
  return text.substr(0, at);
}

class SheetNames {
 public:
  // A free name near `wanted`: the name itself, then <name>_2, <name>_3, ...
  std::string Take(std::string_view wanted) {
    std::string base(wanted);
    for (char& c : base) {
      const bool control = static_cast<unsigned char>(c) < 0x20;
      c = control || std::string_view("[]:*?/\\").find(c) != std::string_view::npos ? '_' : c;
    }
    base = FirstUnits(base, kSheetNameUnits);
    if (base.empty()) {
      base = "Sheet";
    }
    base.front() = base.front() == '\'' ? '_' : base.front();
    base.back() = base.back() == '\'' ? '_' : base.back();
    std::string name = base;
    for (size_t number = 2; !taken_.insert(base::AsciiLower(name)).second; ++number) {
      const std::string suffix = fmt::format("_{}", number);
      name = FirstUnits(base, kSheetNameUnits - suffix.size());
      name += suffix;
    }
    return name;
  }

 private:
  std::set<std::string> taken_;
};

}  // namespace

std::vector<Sheet> PlanWorkbook(std::span<const Table* const> tables, size_t rows_per_sheet) {
  std::vector<Sheet> sheets;
  SheetNames names;
  const size_t limit = std::clamp<size_t>(rows_per_sheet, 1, kMaxSheetRows);
  for (const Table* table : tables) {
    size_t first = 0;
    do {
      const size_t count = std::min(limit, table->row_count() - first);
      sheets.push_back({table, names.Take(table->name()), first, count});
      first += count;
    } while (first < table->row_count());
  }
  return sheets;
}

std::string SheetPath(size_t index) { return fmt::format("xl/worksheets/sheet{}.xml", index + 1); }

std::string ContentTypesXml(size_t sheets) {
  constexpr std::string_view kMain = "application/vnd.openxmlformats-officedocument.spreadsheetml";
  std::string xml = fmt::format(
      "{0}<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">"
      "<Default Extension=\"rels\" "
      "ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>"
      "<Default Extension=\"xml\" ContentType=\"application/xml\"/>"
      "<Override PartName=\"/xl/workbook.xml\" ContentType=\"{1}.sheet.main+xml\"/>"
      "<Override PartName=\"/xl/styles.xml\" ContentType=\"{1}.styles+xml\"/>",
      kXmlHead, kMain);
  for (size_t sheet = 0; sheet < sheets; ++sheet) {
    xml += fmt::format("<Override PartName=\"/{}\" ContentType=\"{}.worksheet+xml\"/>",
                       SheetPath(sheet), kMain);
  }
  return xml + "</Types>";
}

std::string PackageRelationsXml() {
  return fmt::format(
      "{}<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">"
      "<Relationship Id=\"rId1\" Type=\"{}/officeDocument\" Target=\"xl/workbook.xml\"/>"
      "</Relationships>",
      kXmlHead, kRelationTypes);
}

std::string WorkbookXml(std::span<const Sheet> sheets, const XlsxOptions& options) {
  std::string xml = fmt::format(
      "{}<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" "
      "xmlns:r=\"{}\"><bookViews><workbookView/></bookViews><sheets>",
      kXmlHead, kRelationTypes);
  std::string filters;
  for (size_t index = 0; index < sheets.size(); ++index) {
    const Sheet& sheet = sheets[index];
    xml += fmt::format("<sheet name=\"{}\" sheetId=\"{}\" r:id=\"rId{}\"/>", EscapedXml(sheet.name),
                       index + 1, index + 1);
    const size_t columns = sheet.table->columns().size();
    if (options.autofilter && columns > 0) {
      // Spreadsheets look for a filter's range under this name.
      filters += fmt::format(
          "<definedName name=\"_xlnm._FilterDatabase\" localSheetId=\"{}\" hidden=\"1\">"
          "'{}'!$A$1:${}${}</definedName>",
          index, EscapedXml(base::ReplaceAll(sheet.name, "'", "''")), ColumnName(columns - 1),
          sheet.row_count + 1);
    }
  }
  xml += "</sheets>";
  if (!filters.empty()) {
    xml += fmt::format("<definedNames>{}</definedNames>", filters);
  }
  return xml + "</workbook>";
}

std::string WorkbookRelationsXml(size_t sheets) {
  std::string xml = fmt::format(
      "{}<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">",
      kXmlHead);
  for (size_t sheet = 0; sheet < sheets; ++sheet) {
    xml += fmt::format(
        "<Relationship Id=\"rId{0}\" Type=\"{1}/worksheet\" "
        "Target=\"worksheets/sheet{0}.xml\"/>",
        sheet + 1, kRelationTypes);
  }
  xml += fmt::format("<Relationship Id=\"rId{}\" Type=\"{}/styles\" Target=\"styles.xml\"/>",
                     sheets + 1, kRelationTypes);
  return xml + "</Relationships>";
}

std::string StylesXml() {
  // The cell formats stand in the order of Style; fills 0 and 1 are fixed by the format.
  std::string xml(kXmlHead);
  xml +=
      "<styleSheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">"
      "<fonts count=\"2\"><font><sz val=\"11\"/><name val=\"Calibri\"/><family val=\"2\"/></font>"
      "<font><b/><sz val=\"11\"/><name val=\"Calibri\"/><family val=\"2\"/></font></fonts>"
      "<fills count=\"4\"><fill><patternFill patternType=\"none\"/></fill>"
      "<fill><patternFill patternType=\"gray125\"/></fill>";
  for (const std::string_view color : {"00FFFF00", "FFFF0000"}) {
    xml += fmt::format(
        "<fill><patternFill patternType=\"solid\"><fgColor rgb=\"{0}\"/><bgColor rgb=\"{0}\"/>"
        "</patternFill></fill>",
        color);
  }
  xml +=
      "</fills><borders count=\"2\"><border><left/><right/><top/><bottom/><diagonal/></border>"
      "<border>";
  for (const std::string_view side : {"left", "right", "top", "bottom"}) {
    xml += fmt::format("<{0} style=\"thin\"><color auto=\"1\"/></{0}>", side);
  }
  xml +=
      "<diagonal/></border></borders>"
      "<cellStyleXfs count=\"1\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\"/>"
      "</cellStyleXfs><cellXfs count=\"4\">"
      "<xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\"/>"
      "<xf numFmtId=\"0\" fontId=\"0\" fillId=\"2\" borderId=\"0\" xfId=\"0\" applyFill=\"1\"/>"
      "<xf numFmtId=\"0\" fontId=\"0\" fillId=\"3\" borderId=\"0\" xfId=\"0\" applyFill=\"1\"/>"
      "<xf numFmtId=\"0\" fontId=\"1\" fillId=\"0\" borderId=\"1\" xfId=\"0\" applyFont=\"1\" "
      "applyBorder=\"1\" applyAlignment=\"1\"><alignment horizontal=\"center\" "
      "vertical=\"top\"/></xf></cellXfs>"
      "<cellStyles count=\"1\"><cellStyle name=\"Normal\" xfId=\"0\" builtinId=\"0\"/>"
      "</cellStyles></styleSheet>";
  return xml;
}

}  // namespace msprobe::report::internal
