#include "src/report/cell_formats.h"

#include <algorithm>

#include <fmt/format.h>

namespace msprobe::report::internal {
namespace {

// Numbers that the file format gives to common number formats.
int NumberFormatId(NumberFormat format) {
  switch (format) {
    case NumberFormat::kGeneral:
      return 0;
    case NumberFormat::kInteger:
      return 3;
    case NumberFormat::kFixed2:
      return 4;
    case NumberFormat::kPercent:
      return 10;
  }
  return 0;
}

std::string FontXml(bool bold) {
  return fmt::format("<font>{}<sz val=\"11\"/><name val=\"Arial\"/><family val=\"2\"/></font>",
                     bold ? "<b/>" : "");
}

}  // namespace

size_t CellFormats::Add(const CellFormat& format) {
  const auto found = std::find(formats_.begin(), formats_.end(), format);
  const auto index = static_cast<size_t>(found - formats_.begin());
  if (found == formats_.end()) {
    formats_.push_back(format);
  }
  return index + 1;
}

std::string CellFormats::StylesXml() const {
  std::vector<uint32_t> fills;
  for (const CellFormat& format : formats_) {
    if (format.fill_rgb != kNoFill &&
        std::find(fills.begin(), fills.end(), format.fill_rgb) == fills.end()) {
      fills.push_back(format.fill_rgb);
    }
  }
  // Fills 0 and 1 are fixed by the file format.
  std::string xml = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n"
      "<styleSheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">"
      "<fonts count=\"2\">{}{}</fonts><fills count=\"{}\">"
      "<fill><patternFill patternType=\"none\"/></fill>"
      "<fill><patternFill patternType=\"gray125\"/></fill>",
      FontXml(false), FontXml(true), fills.size() + 2);
  for (const uint32_t rgb : fills) {
    xml += fmt::format(
        "<fill><patternFill patternType=\"solid\"><fgColor rgb=\"FF{:06X}\"/>"
        "<bgColor indexed=\"64\"/></patternFill></fill>",
        rgb);
  }
  xml +=
      "</fills><borders count=\"2\"><border><left/><right/><top/><bottom/><diagonal/></border>"
      "<border>";
  for (const char* side : {"left", "right", "top", "bottom"}) {
    xml += fmt::format("<{0} style=\"thin\"><color auto=\"1\"/></{0}>", side);
  }
  xml += fmt::format(
      "<diagonal/></border></borders>"
      "<cellStyleXfs count=\"1\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\"/>"
      "</cellStyleXfs><cellXfs count=\"{}\">"
      "<xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\"/>",
      formats_.size() + 1);
  for (const CellFormat& format : formats_) {
    const size_t fill =
        format.fill_rgb == kNoFill
            ? 0
            : static_cast<size_t>(std::find(fills.begin(), fills.end(), format.fill_rgb) -
                                  fills.begin()) +
                  2;
    xml += fmt::format(
        "<xf numFmtId=\"{}\" fontId=\"{}\" fillId=\"{}\" borderId=\"1\" xfId=\"0\" "
        "applyNumberFormat=\"1\" applyFont=\"1\" applyFill=\"1\" applyBorder=\"1\" "
        "applyAlignment=\"1\"><alignment horizontal=\"left\" vertical=\"center\"{}/></xf>",
        NumberFormatId(format.number), format.bold ? 1 : 0, fill,
        format.indent > 0 ? fmt::format(" indent=\"{}\"", format.indent) : "");
  }
  xml +=
      "</cellXfs><cellStyles count=\"1\"><cellStyle name=\"Normal\" xfId=\"0\" builtinId=\"0\"/>"
      "</cellStyles></styleSheet>";
  return xml;
}

}  // namespace msprobe::report::internal
