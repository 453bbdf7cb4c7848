#include "src/report/formatted_xlsx.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "src/report/cell_formats.h"
#include "src/report/sheet_xml.h"
#include "src/report/workbook_file.h"
#include "src/report/writers.h"
#include "src/report/xlsx_parts.h"

namespace msprobe::report {
namespace {

using internal::CellFormat;
using internal::kNoFill;
using internal::XmlBuffer;

constexpr uint32_t kRedRgb = 0xFF0000;
// What a spreadsheet adds around the characters of a column.
constexpr double kWidthPadding = 0.7109375;

uint32_t Rgb(Shade shade) {
  switch (shade) {
    case Shade::kNone:
      return kNoFill;
    case Shade::kGreen:
      return 0x00FF00;
    case Shade::kYellow:
      return 0xFFFF00;
    case Shade::kDeepSky:
      return 0x00BFFF;
    case Shade::kLightSky:
      return 0x87CEFA;
  }
  return kNoFill;
}

// The marks of every format that one table's cells can have, made before its blocks are formatted
// side by side.
class TableMarks {
 public:
  TableMarks(const FormattedTable& formatted, internal::CellFormats& formats) : from_(formatted) {
    std::vector<Shade> shades = {Shade::kNone};
    for (const Shade shade : formatted.row_shades) {
      if (std::find(shades.begin(), shades.end(), shade) == shades.end()) {
        shades.push_back(shade);
      }
    }
    uint8_t deepest = 0;
    for (const uint8_t indent : formatted.row_indents) {
      deepest = std::max(deepest, indent);
    }
    const auto mark = [&](const CellFormat& format) {
      return internal::StyleMark(formats.Add(format));
    };
    for (size_t column = 0; column < formatted.columns.size(); ++column) {
      const ColumnLayout& layout = formatted.columns[column];
      for (const Shade shade : shades) {
        std::vector<std::string>& by_indent = cells_[Key(column, shade)];
        for (int indent = 0; indent <= (column == 0 ? deepest : 0); ++indent) {
          by_indent.push_back(
              mark({layout.format, layout.bold, Rgb(shade), static_cast<uint8_t>(indent)}));
        }
      }
      headers_.push_back(mark({NumberFormat::kGeneral, true, Rgb(layout.header), 0}));
    }
    for (const TitleCell& title : formatted.titles) {
      titles_.push_back(mark({NumberFormat::kGeneral, true, Rgb(title.shade), 0}));
    }
    worse_ = mark({NumberFormat::kPercent, false, kRedRgb, 0});
  }

  std::string_view OfCell(size_t column, size_t row) const {
    const Shade shade = row < from_.row_shades.size() ? from_.row_shades[row] : Shade::kNone;
    const uint8_t indent =
        column == 0 && row < from_.row_indents.size() ? from_.row_indents[row] : uint8_t{0};
    return cells_.at(Key(column, shade))[indent];
  }
  std::string_view OfHeader(size_t column) const { return headers_[column]; }
  std::string_view OfTitle(size_t title) const { return titles_[title]; }
  std::string_view OfWorse() const { return worse_; }

 private:
  static size_t Key(size_t column, Shade shade) { return column * 8 + static_cast<size_t>(shade); }

  const FormattedTable& from_;
  std::unordered_map<size_t, std::vector<std::string>> cells_;  // by column and shade; by indent
  std::vector<std::string> headers_;
  std::vector<std::string> titles_;
  std::string worse_;
};

size_t HeaderRows(const FormattedTable& formatted) { return formatted.titles.empty() ? 1 : 3; }

void PutTop(const FormattedTable& formatted, const TableMarks& marks,
            const internal::RowFormatter& formatter, XmlBuffer& out) {
  internal::PutSheetHead(HeaderRows(formatted), out);
  out.Append("<cols>");
  for (size_t column = 0; column < formatted.columns.size(); ++column) {
    out.Append(fmt::format("<col min=\"{0}\" max=\"{0}\" width=\"{1}\" customWidth=\"1\"/>",
                           column + 1, formatted.columns[column].width_characters + kWidthPadding));
  }
  out.Append("</cols><sheetData>");
  const std::vector<std::string>& names = formatted.table.columns();
  if (!formatted.titles.empty()) {
    std::vector<Cell> cells(names.size());
    std::vector<std::string_view> styles(names.size(), "\"");
    for (size_t index = 0; index < formatted.titles.size(); ++index) {
      const TitleCell& title = formatted.titles[index];
      cells[title.first_column] = Cell::Text(title.text);
      for (size_t column = title.first_column; column <= title.last_column; ++column) {
        styles[column] = marks.OfTitle(index);
      }
    }
    formatter.Row(cells, 1, styles, out);
  }
  std::vector<Cell> header;
  std::vector<std::string_view> styles;
  for (size_t column = 0; column < names.size(); ++column) {
    header.push_back(Cell::Text(names[column]));
    styles.push_back(marks.OfHeader(column));
  }
  formatter.Row(header, HeaderRows(formatted), styles, out);
}

void PutBottom(const FormattedTable& formatted, XmlBuffer& out) {
  out.Append("</sheetData>");
  if (!formatted.titles.empty()) {
    out.Append(fmt::format("<mergeCells count=\"{}\">", formatted.titles.size()));
    for (const TitleCell& title : formatted.titles) {
      out.Append(fmt::format("<mergeCell ref=\"{}1:{}1\"/>",
                             internal::ColumnName(title.first_column),
                             internal::ColumnName(title.last_column)));
    }
    out.Append("</mergeCells>");
  }
  out.Append("</worksheet>");
}

// A cell as it is shown: ratios above one are marked, what is no number in a file becomes text, and
// an empty text is a blank cell.
Cell Shown(const Cell& cell, bool is_ratio, bool& worse) {
  const bool is_number = cell.kind() == CellKind::kNumber;
  const double value = is_number ? cell.number() : static_cast<double>(cell.integer());
  worse = is_ratio && (is_number || cell.kind() == CellKind::kInteger) && value > 1;
  if (cell.kind() == CellKind::kText && cell.text().empty()) {
    return {};
  }
  if (!is_number || std::isfinite(value)) {
    return cell;
  }
  if (std::isnan(value)) {
    return {};
  }
  return Cell::Text(value > 0 ? "INF" : "-INF");
}

void FormatRows(const FormattedTable& formatted, const TableMarks& marks,
                const internal::Sheet& sheet, const internal::Block& block, XmlBuffer& out) {
  const internal::RowFormatter formatter(formatted.columns.size(), internal::Controls::kEscaped);
  out.Clear();
  if (block.first) {
    PutTop(formatted, marks, formatter, out);
  }
  std::vector<Cell> cells(formatted.columns.size());
  std::vector<std::string_view> styles(formatted.columns.size());
  for (size_t row = block.first_row; row < block.first_row + block.row_count; ++row) {
    const std::span<const Cell> from = formatted.table.row(row);
    for (size_t column = 0; column < from.size(); ++column) {
      bool worse = false;
      cells[column] = Shown(from[column], formatted.columns[column].is_ratio, worse);
      styles[column] = worse ? marks.OfWorse() : marks.OfCell(column, row);
    }
    formatter.Row(cells, row - sheet.first_row + HeaderRows(formatted) + 1, styles, out);
  }
  if (block.last) {
    PutBottom(formatted, out);
  }
}

}  // namespace

Status WriteFormattedXlsx(const std::filesystem::path& path,
                          std::span<const FormattedTable* const> sheets, base::ThreadPool& pool) {
  if (sheets.empty()) {
    return InternalError(fmt::format("cannot write {}: no table", path.string()));
  }
  internal::CellFormats formats;
  std::unordered_map<const Table*, const FormattedTable*> formatted_of;
  std::unordered_map<const Table*, TableMarks> marks_of;
  std::vector<const Table*> tables;
  size_t header_rows = 0;
  for (const FormattedTable* formatted : sheets) {
    const size_t columns = formatted->table.columns().size();
    const bool titles_fit = std::all_of(
        formatted->titles.begin(), formatted->titles.end(), [&](const TitleCell& title) {
          return title.first_column <= title.last_column && title.last_column < columns;
        });
    if (formatted->columns.size() != columns || !titles_fit) {
      return InternalError(fmt::format("cannot write {}: the layout of {} does not fit its columns",
                                       path.string(), formatted->table.name()));
    }
    tables.push_back(&formatted->table);
    formatted_of.emplace(&formatted->table, formatted);
    marks_of.try_emplace(&formatted->table, *formatted, formats);
    header_rows = std::max(header_rows, HeaderRows(*formatted));
  }
  MSP_RETURN_IF_ERROR(internal::CheckColumns(path, tables));
  const std::vector<internal::Sheet> plan =
      internal::PlanWorkbook(tables, kMaxSheetRows + 1 - header_rows);
  XlsxOptions options;
  options.autofilter = false;
  const auto format = [&](const internal::Sheet& sheet, const internal::Block& block,
                          XmlBuffer& out) {
    FormatRows(*formatted_of.at(sheet.table), marks_of.at(sheet.table), sheet, block, out);
  };
  return internal::WriteWorkbook(path, plan, internal::WorkbookXml(plan, options),
                                 formats.StylesXml(), format, pool);
}

}  // namespace msprobe::report
