#include "src/report/sheet_xml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/utf8.h"

namespace msprobe::report::internal {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20U;
constexpr size_t kCellBytes = 128;   // upper bound of a cell's markup and of a number
constexpr size_t kHeadBytes = 4096;  // more than the fixed parts of a sheet need

// Bytes of text that are copied as they are.
constexpr std::array<bool, 256> MakePlainTable() {
  std::array<bool, 256> plain{};
  for (size_t byte = 0x20; byte < 0x80; ++byte) {
    plain[byte] = byte != '&' && byte != '<' && byte != '>' && byte != '"';
  }
  plain['\t'] = true;
  plain['\n'] = true;
  return plain;
}
constexpr std::array<bool, 256> kPlain = MakePlainTable();

char* Put(char* out, std::string_view text) {
  return std::copy(text.begin(), text.end(), out);  // an empty view may have no address for memcpy
}

// One character that is not plain; advances `at`.
char* PutSpecial(std::string_view text, size_t& at, char* out, Controls controls) {
  if (controls == Controls::kEscaped && static_cast<unsigned char>(text[at]) < 0x20) {
    return fmt::format_to(out, "_x{:04X}_", static_cast<unsigned char>(text[at++]));
  }
  switch (text[at]) {
    case '&':
      ++at;
      return Put(out, "&amp;");
    case '<':
      ++at;
      return Put(out, "&lt;");
    case '>':
      ++at;
      return Put(out, "&gt;");
    case '"':
      ++at;
      return Put(out, "&quot;");
    case '\r':
      ++at;
      return Put(out, "&#13;");
    default:
      break;
  }
  const base::Utf8Char character = base::DecodeUtf8(text.substr(at));
  const uint32_t code = character.code;
  const bool allowed = character.valid && code >= 0x80 && (code < 0xD800 || code >= 0xE000) &&
                       code != 0xFFFE && code != 0xFFFF;
  out = allowed ? Put(out, text.substr(at, character.bytes)) : Put(out, "_");
  at += character.bytes;
  return out;
}

// A reader may drop blanks around an element's text unless told otherwise.
bool NeedsPreserve(std::string_view text) {
  return !text.empty() && (text.front() == ' ' || text.back() == ' ' ||
                           std::any_of(text.begin(), text.end(),
                                       [](char c) { return c == '\t' || c == '\n' || c == '\r'; }));
}

char* PutNumber(double value, char* out) {
  std::string text;
  base::AppendGeneral(value, 16, text);
  return Put(out, text);
}

// The format of all cells of a row of a plain sheet.
std::vector<std::string_view> Uniform(Style style, size_t columns) {
  static constexpr std::array<std::string_view, 4> kMarks = {"\"", "\" s=\"1\"", "\" s=\"2\"",
                                                             "\" s=\"3\""};
  return std::vector<std::string_view>(columns, kMarks[static_cast<size_t>(style)]);
}

void PutHead(const Sheet& sheet, const XlsxOptions& options, const RowFormatter& formatter,
             XmlBuffer& out) {
  PutSheetHead(options.freeze_header ? 1 : 0, out);
  out.Append("<sheetData>");
  std::vector<Cell> header;
  for (const std::string& column : sheet.table->columns()) {
    header.push_back(Cell::Text(column));
  }
  const Style style = options.styled_header ? Style::kHeader : Style::kPlain;
  formatter.Row(header, 1, Uniform(style, header.size()), out);
}

void PutTail(const Sheet& sheet, const XlsxOptions& options, XmlBuffer& out) {
  out.Append("</sheetData>");
  const size_t columns = sheet.table->columns().size();
  if (options.autofilter && columns > 0) {
    out.Append(
        fmt::format("<autoFilter ref=\"A1:{}{}\"/>", ColumnName(columns - 1), sheet.row_count + 1));
  }
  out.Append("</worksheet>");
}

size_t EstimateRow(std::span<const Cell> cells) {
  size_t bytes = 0;
  for (const Cell& cell : cells) {
    bytes += 64 + (cell.kind() == CellKind::kText ? cell.text().size() : 0);
  }
  return bytes;
}

}  // namespace

void XmlBuffer::Grow(size_t bytes) {
  const size_t capacity = std::max(capacity_ * 2, size_ + bytes + kBlockBytes);
  std::unique_ptr<char[]> memory(new char[capacity]);
  if (size_ > 0) {
    std::copy_n(memory_.get(), size_, memory.get());
  }
  memory_ = std::move(memory);
  capacity_ = capacity;
}

void XmlBuffer::Append(std::string_view text) { SetEnd(Put(Reserve(text.size()), text)); }

SheetPlan PlanSheet(const Sheet& sheet) {
  SheetPlan plan;
  plan.bound_bytes = kHeadBytes;
  for (const std::string& column : sheet.table->columns()) {
    plan.bound_bytes += kCellBytes + kEscapeFactor * column.size();
  }
  Block block{sheet.first_row, 0, true, false};
  size_t bytes = 0;
  for (size_t row = sheet.first_row; row < sheet.first_row + sheet.row_count; ++row) {
    const size_t row_bytes = EstimateRow(sheet.table->row(row));
    plan.bound_bytes += kEscapeFactor * (row_bytes + kCellBytes);
    if (block.row_count > 0 && bytes + row_bytes > kBlockBytes) {
      plan.blocks.push_back(block);
      block = {row, 0, false, false};
      bytes = 0;
    }
    bytes += row_bytes;
    ++block.row_count;
  }
  block.last = true;
  plan.blocks.push_back(block);
  return plan;
}

RowFormatter::RowFormatter(size_t columns, Controls controls) : controls_(controls) {
  for (size_t column = 0; column < columns; ++column) {
    opens_.push_back(fmt::format("<c r=\"{}", ColumnName(column)));
  }
}

void RowFormatter::Row(std::span<const Cell> cells, size_t sheet_row,
                       std::span<const std::string_view> styles, XmlBuffer& out) const {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), sheet_row);
  const std::string_view row(digits.data(), static_cast<size_t>(end.ptr - digits.data()));
  char* at = Put(out.Reserve(kCellBytes), "<row r=\"");
  at = Put(at, row);
  out.SetEnd(Put(at, "\">"));
  for (size_t column = 0; column < cells.size(); ++column) {
    PutCell(cells[column], opens_[column], row, styles[column], out);
  }
  out.Append("</row>");
}

void RowFormatter::PutCell(const Cell& cell, std::string_view open, std::string_view row,
                           std::string_view style, XmlBuffer& out) const {
  const CellKind kind = cell.kind();
  if (kind == CellKind::kEmpty && style.size() == 1) {
    return;
  }
  const std::string_view text =
      kind == CellKind::kText ? CutToCell(cell.text()) : std::string_view();
  char* at = out.Reserve(kCellBytes + kEscapeFactor * text.size());
  at = Put(at, open);
  at = Put(at, row);
  at = Put(at, style);
  switch (kind) {
    case CellKind::kEmpty:
      at = Put(at, "/>");
      break;
    case CellKind::kText:
      at = Put(at, NeedsPreserve(text) ? " t=\"inlineStr\"><is><t xml:space=\"preserve\">"
                                       : " t=\"inlineStr\"><is><t>");
      at = EscapeXml(text, at, controls_);
      at = Put(at, "</t></is></c>");
      break;
    case CellKind::kInteger:
      at = Put(at, "><v>");
      at = std::to_chars(at, at + 24, cell.integer()).ptr;
      at = Put(at, "</v></c>");
      break;
    case CellKind::kNumber:
      at = Put(at, "><v>");
      at = PutNumber(cell.number(), at);
      at = Put(at, "</v></c>");
      break;
    case CellKind::kBoolean:
      at = Put(at, cell.boolean() ? " t=\"b\"><v>1</v></c>" : " t=\"b\"><v>0</v></c>");
      break;
  }
  out.SetEnd(at);
}

std::string StyleMark(size_t format) {
  return format == 0 ? "\"" : fmt::format("\" s=\"{}\"", format);
}

void PutSheetHead(size_t frozen_rows, XmlBuffer& out) {
  out.Append(
      "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n"
      "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">");
  if (frozen_rows > 0) {
    out.Append(fmt::format(
        "<sheetViews><sheetView workbookViewId=\"0\">"
        "<pane ySplit=\"{}\" topLeftCell=\"A{}\" activePane=\"bottomLeft\" state=\"frozen\"/>"
        "<selection pane=\"bottomLeft\"/></sheetView></sheetViews>",
        frozen_rows, frozen_rows + 1));
  }
}

void FormatBlock(const Sheet& sheet, const Block& block, const XlsxOptions& options,
                 XmlBuffer& out) {
  const size_t columns = sheet.table->columns().size();
  const RowFormatter formatter(columns, Controls::kReplaced);
  // By Fill.
  const std::array<std::vector<std::string_view>, 3> styles = {Uniform(Style::kPlain, columns),
                                                               Uniform(Style::kYellow, columns),
                                                               Uniform(Style::kRed, columns)};
  out.Clear();
  if (block.first) {
    PutHead(sheet, options, formatter, out);
  }
  for (size_t row = block.first_row; row < block.first_row + block.row_count; ++row) {
    formatter.Row(sheet.table->row(row), row - sheet.first_row + 2,
                  styles[static_cast<size_t>(sheet.table->fill(row))], out);
  }
  if (block.last) {
    PutTail(sheet, options, out);
  }
}

std::string ColumnName(size_t column) {
  std::string name;
  for (size_t rest = column + 1; rest > 0; rest = (rest - 1) / 26) {
    name.insert(name.begin(), static_cast<char>('A' + (rest - 1) % 26));
  }
  return name;
}

char* EscapeXml(std::string_view text, char* out, Controls controls) {
  size_t copied = 0;
  size_t at = 0;
  while (at < text.size()) {
    if (kPlain[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    out = Put(out, text.substr(copied, at - copied));
    out = PutSpecial(text, at, out, controls);
    copied = at;
  }
  return Put(out, text.substr(copied));
}

std::string EscapedXml(std::string_view text) {
  std::string out(kEscapeFactor * text.size(), '\0');
  out.resize(static_cast<size_t>(EscapeXml(text, out.data()) - out.data()));
  return out;
}

std::string_view FirstUnits(std::string_view text, size_t units) {
  if (text.size() <= units) {
    return text;  // no character takes fewer bytes than units
  }
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

}  // namespace msprobe::report::internal
