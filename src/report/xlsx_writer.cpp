#include "src/report/xlsx_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/io/zip.h"
#include "src/report/render_terminal.h"
#include "src/report/sheet_xml.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::report::internal {
namespace {

constexpr size_t kSheetNameUnits = 31;
constexpr std::string_view kXmlHead =
    "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
constexpr std::string_view kRelationTypes =
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

// styles.xml of a plain and a bold font and of one frame; `fills` are numbered from 2, `formats`
// from 1, because fills 0 and 1 and format 0 are fixed.
std::string StylesXml(std::string_view font, std::span<const std::string> fills,
                      std::span<const std::string> formats) {
  std::string xml = fmt::format(
      "{0}<styleSheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">"
      "<fonts count=\"2\"><font><sz val=\"11\"/><name val=\"{1}\"/><family val=\"2\"/></font>"
      "<font><b/><sz val=\"11\"/><name val=\"{1}\"/><family val=\"2\"/></font></fonts>"
      "<fills count=\"{2}\"><fill><patternFill patternType=\"none\"/></fill>"
      "<fill><patternFill patternType=\"gray125\"/></fill>",
      kXmlHead, font, fills.size() + 2);
  for (const std::string& fill : fills) {
    xml += fmt::format("<fill><patternFill patternType=\"solid\">{}</patternFill></fill>", fill);
  }
  xml +=
      "</fills><borders count=\"2\"><border><left/><right/><top/><bottom/><diagonal/></border>"
      "<border>";
  for (const std::string_view side : {"left", "right", "top", "bottom"}) {
    xml += fmt::format("<{0} style=\"thin\"><color auto=\"1\"/></{0}>", side);
  }
  xml += fmt::format(
      "<diagonal/></border></borders>"
      "<cellStyleXfs count=\"1\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\"/>"
      "</cellStyleXfs><cellXfs count=\"{}\">"
      "<xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\"/>",
      formats.size() + 1);
  for (const std::string& format : formats) {
    xml += format;
  }
  return xml +
         "</cellXfs><cellStyles count=\"1\"><cellStyle name=\"Normal\" xfId=\"0\" "
         "builtinId=\"0\"/></cellStyles></styleSheet>";
}

// The styles of plain workbooks. The cell formats are in the order of Style.
std::string PlainStylesXml() {
  constexpr std::string_view kFill = "<fgColor rgb=\"{0}\"/><bgColor rgb=\"{0}\"/>";
  const std::string fills[] = {fmt::format(kFill, "00FFFF00"), fmt::format(kFill, "FFFF0000")};
  const std::string formats[] = {
      "<xf numFmtId=\"0\" fontId=\"0\" fillId=\"2\" borderId=\"0\" xfId=\"0\" applyFill=\"1\"/>",
      "<xf numFmtId=\"0\" fontId=\"0\" fillId=\"3\" borderId=\"0\" xfId=\"0\" applyFill=\"1\"/>",
      "<xf numFmtId=\"0\" fontId=\"1\" fillId=\"0\" borderId=\"1\" xfId=\"0\" applyFont=\"1\" "
      "applyBorder=\"1\" applyAlignment=\"1\"><alignment horizontal=\"center\" "
      "vertical=\"top\"/></xf>"};
  return StylesXml("Calibri", fills, formats);
}

constexpr uint32_t kNoFill = UINT32_MAX;

// How one cell of a formatted workbook looks, apart from the font, the frame and the position that
// all share.
struct CellFormat {
  NumberFormat number = NumberFormat::kGeneral;
  bool bold = false;
  uint32_t fill_rgb = kNoFill;
  uint8_t indent = 0;

  bool operator==(const CellFormat&) const = default;
};

// The cell formats of a workbook, kept once each, and the styles.xml they make.
class CellFormats {
 public:
  // The number by which cells refer to the format. 0 is the format of cells that refer to none.
  size_t Add(const CellFormat& format) {
    const auto found = std::find(formats_.begin(), formats_.end(), format);
    const auto index = static_cast<size_t>(found - formats_.begin());
    if (found == formats_.end()) {
      formats_.push_back(format);
    }
    return index + 1;
  }

  std::string Xml() const {
    // By NumberFormat: numbers that the file format gives to common formats.
    constexpr std::array<int, 4> kNumberIds = {0, 3, 4, 10};
    std::vector<std::string> fills;
    std::vector<std::string> formats;
    for (const CellFormat& format : formats_) {
      size_t fill = 0;
      if (format.fill_rgb != kNoFill) {
        const std::string xml =
            fmt::format("<fgColor rgb=\"FF{:06X}\"/><bgColor indexed=\"64\"/>", format.fill_rgb);
        const auto found = std::find(fills.begin(), fills.end(), xml);
        fill = static_cast<size_t>(found - fills.begin()) + 2;
        if (found == fills.end()) {
          fills.push_back(xml);
        }
      }
      formats.push_back(fmt::format(
          "<xf numFmtId=\"{}\" fontId=\"{}\" fillId=\"{}\" borderId=\"1\" xfId=\"0\" "
          "applyNumberFormat=\"1\" applyFont=\"1\" applyFill=\"1\" applyBorder=\"1\" "
          "applyAlignment=\"1\"><alignment horizontal=\"left\" vertical=\"center\"{}/></xf>",
          kNumberIds[static_cast<size_t>(format.number)], format.bold ? 1 : 0, fill,
          format.indent > 0 ? fmt::format(" indent=\"{}\"", format.indent) : ""));
    }
    return StylesXml("Arial", fills, formats);
  }

 private:
  std::vector<CellFormat> formats_;
};

// Sheets are formatted as blocks of about a megabyte of XML, independently of each other.

constexpr size_t kBlockBytes = size_t{1} << 20U;
constexpr size_t kCellBytes = 128;   // upper bound of a cell's markup and of a number
constexpr size_t kWidthBytes = 80;   // of a column, in front of the rows
constexpr size_t kHeadBytes = 4096;  // more than the fixed parts of a sheet need

// Indexes into the cell formats of a plain workbook's styles.xml.
enum class Style : uint8_t { kPlain, kYellow, kRed, kHeader };

// One worksheet: a run of rows of one table.
struct Sheet {
  const Table* table = nullptr;
  std::string name;
  size_t first_row = 0;
  size_t row_count = 0;
};

// A run of rows of one sheet. The first block of a sheet also holds what stands in front of the
// rows, the last one what follows.
struct Block {
  size_t first_row = 0;
  size_t row_count = 0;
  bool first = false;
  bool last = false;
};

// Growing bytes without the checks of a string per piece: reserve for a whole cell, then write.
class XmlBuffer {
 public:
  // At least `bytes` writable behind the content.
  char* Reserve(size_t bytes) {
    if (capacity_ - size_ < bytes) {
      const size_t capacity = std::max(capacity_ * 2, size_ + bytes + kBlockBytes);
      std::unique_ptr<char[]> memory(new char[capacity]);
      Put(memory.get(), text());
      memory_ = std::move(memory);
      capacity_ = capacity;
    }
    return memory_.get() + size_;
  }
  void SetEnd(const char* end) { size_ = static_cast<size_t>(end - memory_.get()); }
  void Append(std::string_view text) { SetEnd(Put(Reserve(text.size()), text)); }
  void Clear() { size_ = 0; }
  std::string_view text() const { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<char[]> memory_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// The blocks of a sheet and an upper bound of its XML's size. Depends on nothing but the table.
struct SheetPlan {
  std::vector<Block> blocks;
  uint64_t bound_bytes = 0;
};

size_t EstimateRow(std::span<const Cell> cells) {
  size_t bytes = 0;
  for (const Cell& cell : cells) {
    bytes += 64 + (cell.kind() == CellKind::kText ? cell.text().size() : 0);
  }
  return bytes;
}

// For a table whose rows are made block by block: as many rows in each block as make a megabyte
// when all are alike.
void PlanEvenly(const Sheet& sheet, SheetPlan& plan) {
  const Table& table = *sheet.table;
  const uint64_t marks = 64 * table.columns().size();
  plan.bound_bytes += kEscapeFactor * (table.text_bytes() + sheet.row_count * (marks + kCellBytes));
  const uint64_t row_bytes = marks + table.text_bytes() / std::max<size_t>(table.row_count(), 1);
  const size_t rows = static_cast<size_t>(std::max<uint64_t>(kBlockBytes / row_bytes, 1));
  const size_t end = sheet.first_row + sheet.row_count;
  for (size_t row = sheet.first_row; row < end; row += rows) {
    plan.blocks.push_back({row, std::min(rows, end - row), false, false});
  }
  if (plan.blocks.empty()) {
    plan.blocks.push_back({sheet.first_row, 0, false, false});
  }
  plan.blocks.front().first = true;
  plan.blocks.back().last = true;
}

SheetPlan PlanSheet(const Sheet& sheet) {
  SheetPlan plan;
  plan.bound_bytes = kHeadBytes;
  for (const std::string& column : sheet.table->columns()) {
    plan.bound_bytes += kWidthBytes + kCellBytes + kEscapeFactor * column.size();
  }
  if (sheet.table->is_made_in_blocks()) {
    PlanEvenly(sheet, plan);
    return plan;
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

// A reader may drop blanks around an element's text unless it is marked.
bool NeedsPreserve(std::string_view text) {
  return !text.empty() && (text.front() == ' ' || text.back() == ' ' ||
                           std::any_of(text.begin(), text.end(),
                                       [](char c) { return c == '\t' || c == '\n' || c == '\r'; }));
}

// Formats the cells of rows; what repeats is prepared once.
class RowFormatter {
 public:
  RowFormatter(size_t columns, Controls controls) : controls_(controls) {
    for (size_t column = 0; column < columns; ++column) {
      opens_.push_back(fmt::format("<c r=\"{}", ColumnName(column)));
    }
  }

  // `styles`: one per cell, what StyleMark gave. Empty cells of no style are left out. `sheet_row`
  // counts from 1.
  void Row(std::span<const Cell> cells, size_t sheet_row, std::span<const std::string_view> styles,
           XmlBuffer& out) const {
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

 private:
  void PutCell(const Cell& cell, std::string_view open, std::string_view row,
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
        if (IsPlainXml(text)) {
          at = Put(Put(at, " t=\"inlineStr\"><is><t>"), text);
        } else {
          at = Put(at, NeedsPreserve(text) ? " t=\"inlineStr\"><is><t xml:space=\"preserve\">"
                                           : " t=\"inlineStr\"><is><t>");
          at = EscapeXml(text, at, controls_);
        }
        at = Put(at, "</t></is></c>");
        break;
      case CellKind::kInteger:
        at = Put(at, "><v>");
        at = std::to_chars(at, at + 24, cell.integer()).ptr;
        at = Put(at, "</v></c>");
        break;
      case CellKind::kNumber:
        at = Put(at, "><v>");
        at = std::to_chars(at, at + 32, cell.number(), std::chars_format::general, 16).ptr;
        at = Put(at, "</v></c>");
        break;
      case CellKind::kBoolean:
        at = Put(at, cell.boolean() ? " t=\"b\"><v>1</v></c>" : " t=\"b\"><v>0</v></c>");
        break;
    }
    out.SetEnd(at);
  }

  std::vector<std::string> opens_;
  Controls controls_;
};

// The part of a cell's tag that names its format; format 0 is the one of cells that name none.
std::string StyleMark(size_t format) {
  return format == 0 ? "\"" : fmt::format("\" s=\"{}\"", format);
}

// The beginning of every worksheet; `frozen_rows` stay while scrolling.
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

// The format of all cells of a row of a plain sheet.
std::vector<std::string_view> Uniform(Style style, size_t columns) {
  static constexpr std::array<std::string_view, 4> kMarks = {"\"", "\" s=\"1\"", "\" s=\"2\"",
                                                             "\" s=\"3\""};
  return std::vector<std::string_view>(columns, kMarks[static_cast<size_t>(style)]);
}

// Wide enough for the column names and most cells, as far as the first rows show; long texts are
// cut by the next column.
void PutWidths(const Sheet& sheet, Table& made, XmlBuffer& out) {
  constexpr size_t kSampledRows = 100;
  constexpr size_t kNarrowest = 8;
  constexpr size_t kWidest = 60;
  constexpr size_t kPadding = 3;  // the button of the filter stands in the header
  const std::vector<std::string>& columns = sheet.table->columns();
  if (columns.empty()) {
    return;
  }
  std::vector<size_t> widths;
  for (const std::string& column : columns) {
    widths.push_back(ColumnsOf(column) + kPadding);
  }
  const size_t count = std::min(sheet.row_count, kSampledRows);
  const Table::Rows rows = sheet.table->Block(sheet.first_row, count, made);
  for (size_t row = 0; row < count; ++row) {
    const std::span<const Cell> cells = rows.row(row);
    for (size_t i = 0; i < std::min(cells.size(), widths.size()); ++i) {
      if (widths[i] < kWidest) {
        widths[i] = std::max(widths[i], ColumnsOf(CellText(cells[i])) + 1);
      }
    }
  }
  out.Append("<cols>");
  for (size_t i = 0; i < widths.size(); ++i) {
    out.Append(fmt::format("<col min=\"{0}\" max=\"{0}\" width=\"{1}\" customWidth=\"1\"/>", i + 1,
                           std::clamp(widths[i], kNarrowest, kWidest)));
  }
  out.Append("</cols>");
}

void PutHead(const Sheet& sheet, const XlsxOptions& options, const RowFormatter& formatter,
             Table& made, XmlBuffer& out) {
  PutSheetHead(options.freeze_header ? 1 : 0, out);
  PutWidths(sheet, made, out);
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

// Replaces `out` by the XML of one block of a plain sheet. Rows that have to be made are made in
// `made`.
void FormatBlock(const Sheet& sheet, const Block& block, const XlsxOptions& options, Table& made,
                 XmlBuffer& out) {
  const size_t columns = sheet.table->columns().size();
  const RowFormatter formatter(columns, Controls::kReplaced);
  // By Fill.
  const std::array<std::vector<std::string_view>, 3> styles = {Uniform(Style::kPlain, columns),
                                                               Uniform(Style::kYellow, columns),
                                                               Uniform(Style::kRed, columns)};
  out.Clear();
  if (block.first) {
    PutHead(sheet, options, formatter, made, out);
  }
  const Table::Rows rows = sheet.table->Block(block.first_row, block.row_count, made);
  for (size_t row = 0; row < block.row_count; ++row) {
    formatter.Row(rows.row(row), block.first_row + row - sheet.first_row + 2,
                  styles[static_cast<size_t>(rows.fill(row))], out);
  }
  if (block.last) {
    PutTail(sheet, options, out);
  }
}

// Compresses pieces of one deflate stream independently of each other, so that threads can share
// the work and the pieces can simply be joined. One per thread; keeps its tables between blocks.
class BlockCompressor {
 public:
  BlockCompressor() : stream_(std::make_unique<z_stream>()) {
    ready_ = deflateInit2(stream_.get(), kSheetLevel, Z_DEFLATED, kRawDeflate, kSheetMemoryLevel,
                          Z_DEFAULT_STRATEGY) == Z_OK;
  }
  BlockCompressor(const BlockCompressor&) = delete;
  BlockCompressor& operator=(const BlockCompressor&) = delete;
  ~BlockCompressor() {
    if (ready_) {
      deflateEnd(stream_.get());
    }
  }

  // Replaces `out` by the raw deflate form of `text`: whole bytes, not the end of a stream. False
  // when memory ran out.
  bool Compress(std::string_view text, std::string& out) {
    if (!ready_ || text.size() > std::numeric_limits<uInt>::max() / 2 ||
        deflateReset(stream_.get()) != Z_OK ||
        deflateTune(stream_.get(), kGoodLength, kMaxLazy, kNiceLength, kMaxChain) != Z_OK) {
      return false;
    }
    out.resize(deflateBound(stream_.get(), static_cast<uLong>(text.size())) + kMarkerBytes);
    stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream_->avail_in = static_cast<uInt>(text.size());
    stream_->next_out = reinterpret_cast<Bytef*>(out.data());
    stream_->avail_out = static_cast<uInt>(out.size());
    const int result = deflate(stream_.get(), Z_SYNC_FLUSH);
    if (result != Z_OK || stream_->avail_in != 0 || stream_->avail_out == 0) {
      return false;
    }
    out.erase(out.size() - stream_->avail_out);
    return true;
  }

 private:
  static constexpr int kSheetLevel = 1;  // three times as fast as level 6 for 15 % more bytes
  static constexpr int kRawDeflate = -15;
  // Larger hash tables leave the cache (measured: 20 % slower).
  static constexpr int kSheetMemoryLevel = 8;
  // Level 1 with half its search depth: 10 % faster on sheets for 1 % more bytes.
  static constexpr int kGoodLength = 4;
  static constexpr int kMaxLazy = 4;
  static constexpr int kNiceLength = 32;
  static constexpr int kMaxChain = 2;
  // Room for the flush marker beyond zlib's own bound.
  static constexpr size_t kMarkerBytes = 64;

  std::unique_ptr<z_stream> stream_;
  bool ready_ = false;
};

// The end of a stream of such blocks: an empty last block.
constexpr std::string_view kStreamEnd("\x03\x00", 2);

uint32_t Crc32(std::string_view text) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

// The CRC-32 of two texts one behind the other, of which the second has `second_bytes`.
uint32_t JoinCrc32(uint32_t first, uint32_t second, uint64_t second_bytes) {
  return static_cast<uint32_t>(crc32_combine(first, second, static_cast<z_off_t>(second_bytes)));
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

// Cuts tables into sheets and gives them names that spreadsheets accept: at most 31 UTF-16 units,
// none of []:*?/\, no apostrophe at either end, unique without regard to case.
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

// Replaces `out` by the XML of one block of a sheet; called on any thread, with a table of that
// thread for rows that have to be made.
using BlockFormatter = std::function<void(const Sheet&, const Block&, Table& made, XmlBuffer& out)>;

constexpr uint64_t kLargeBytes = uint64_t{4} << 30U;

struct PackedBlock {
  std::string compressed;
  uint32_t crc32 = 0;
  uint64_t size_bytes = 0;
};

// Formats and compresses blocks; each thread keeps its memory from sheet to sheet.
class SheetPacker {
 public:
  SheetPacker(const BlockFormatter& format, base::ThreadPool& pool)
      : format_(format), pool_(pool), workers_(pool.thread_count()) {}

  Status Write(const Sheet& sheet, const std::string& path, io::ZipWriter& zip) {
    const SheetPlan plan = PlanSheet(sheet);
    MSP_RETURN_IF_ERROR(zip.Begin(path, plan.bound_bytes >= kLargeBytes));
    uint32_t crc32 = 0;
    uint64_t size_bytes = 0;
    const auto pack = [&](size_t number, size_t worker, PackedBlock& packed) {
      return Pack(sheet, plan.blocks[number], workers_[worker], packed);
    };
    const auto append = [&](const PackedBlock& block) {
      crc32 = JoinCrc32(crc32, block.crc32, block.size_bytes);
      size_bytes += block.size_bytes;
      return zip.Append(block.compressed);
    };
    MSP_RETURN_IF_ERROR(base::MakeInOrder<PackedBlock>(pool_, plan.blocks.size(), pack, append));
    MSP_RETURN_IF_ERROR(zip.Append(kStreamEnd));
    return zip.End(crc32, size_bytes);
  }

 private:
  struct Worker {
    Table made;
    XmlBuffer xml;
    BlockCompressor compressor;
  };

  Status Pack(const Sheet& sheet, const Block& block, Worker& worker, PackedBlock& packed) {
    format_(sheet, block, worker.made, worker.xml);
    packed.crc32 = Crc32(worker.xml.text());
    packed.size_bytes = worker.xml.text().size();
    return worker.compressor.Compress(worker.xml.text(), packed.compressed)
               ? OkStatus()
               : InternalError("cannot compress a block of the sheet: out of memory");
  }

  const BlockFormatter& format_;
  base::ThreadPool& pool_;
  std::vector<Worker> workers_;
};

// Fails where a table has more columns than a sheet can hold.
Status CheckColumns(const std::filesystem::path& path, std::span<const Table* const> tables) {
  for (const Table* table : tables) {
    if (table->columns().size() > kMaxSheetColumns) {
      return UnsupportedError(fmt::format("cannot write {}: table {} has {} columns, a sheet {}",
                                          path.string(), table->name(), table->columns().size(),
                                          kMaxSheetColumns));
    }
  }
  return {};
}

// `workbook_xml` names the sheets, `styles_xml` the formats that their cells refer to.
Status WriteWorkbook(const std::filesystem::path& path, std::span<const Sheet> sheets,
                     const std::string& workbook_xml, const std::string& styles_xml,
                     const BlockFormatter& format, base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  io::ZipWriter zip(file);
  MSP_RETURN_IF_ERROR(zip.AddStored("[Content_Types].xml", ContentTypesXml(sheets.size())));
  MSP_RETURN_IF_ERROR(zip.AddStored("_rels/.rels", PackageRelationsXml()));
  MSP_RETURN_IF_ERROR(zip.AddStored("xl/workbook.xml", workbook_xml));
  MSP_RETURN_IF_ERROR(
      zip.AddStored("xl/_rels/workbook.xml.rels", WorkbookRelationsXml(sheets.size())));
  MSP_RETURN_IF_ERROR(zip.AddStored("xl/styles.xml", styles_xml));
  SheetPacker packer(format, pool);
  for (size_t index = 0; index < sheets.size(); ++index) {
    MSP_RETURN_IF_ERROR(packer.Write(sheets[index], SheetPath(index), zip));  // names the file
  }
  MSP_RETURN_IF_ERROR(zip.Finish());
  return file.Commit();
}

}  // namespace

}  // namespace msprobe::report::internal

namespace msprobe::report {

std::vector<std::pair<size_t, size_t>> SplitEvenly(size_t row_count, size_t limit) {
  const size_t part_count = row_count == 0 ? 1 : (row_count + limit - 1) / limit;
  std::vector<std::pair<size_t, size_t>> parts;
  size_t first = 0;
  for (size_t part = 0; part < part_count; ++part) {
    const size_t count = row_count / part_count + (part < row_count % part_count ? 1 : 0);
    parts.emplace_back(first, count);
    first += count;
  }
  return parts;
}

std::string PartSheetName(const std::string& name, size_t part) {
  const std::string ending = "_part_" + std::to_string(part);
  return name.substr(0, internal::kSheetNameUnits - ending.size()) + ending;
}

std::vector<Table> SplitIntoParts(const Table& table, size_t limit) {
  std::vector<Table> parts;
  for (const auto& [first, count] : SplitEvenly(table.row_count(), limit)) {
    Table& part = parts.emplace_back(PartSheetName(table.name(), parts.size()), table.columns());
    part.Reserve(count);
    for (size_t row = first; row < first + count; ++row) {
      part.AddRow(table.row(row), table.fill(row));
    }
  }
  return parts;
}

namespace {

using internal::CellFormat;
using internal::kNoFill;
using internal::XmlBuffer;

constexpr uint32_t kRedRgb = 0xFF0000;
// Padding that a spreadsheet adds around the characters of a column.
constexpr double kWidthPadding = 0.7109375;

uint32_t Rgb(Shade shade) {
  constexpr std::array<uint32_t, 5> kColours = {kNoFill, 0x00FF00, 0xFFFF00, 0x00BFFF, 0x87CEFA};
  return kColours[static_cast<size_t>(shade)];
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

// A cell as it is shown: ratios above one are marked, what is not a number in a file becomes text,
// and an empty text is a blank cell.
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
                          Table& /*made*/, XmlBuffer& out) {
    FormatRows(*formatted_of.at(sheet.table), marks_of.at(sheet.table), sheet, block, out);
  };
  return internal::WriteWorkbook(path, plan, internal::WorkbookXml(plan, options), formats.Xml(),
                                 format, pool);
}

Status WriteXlsx(const std::filesystem::path& path, std::span<const Table* const> sheets,
                 const XlsxOptions& options, base::ThreadPool& pool) {
  if (sheets.empty()) {
    return InternalError(fmt::format("cannot write {}: no table", path.string()));
  }
  MSP_RETURN_IF_ERROR(internal::CheckColumns(path, sheets));
  const std::vector<internal::Sheet> plan = internal::PlanWorkbook(sheets, options.rows_per_sheet);
  const auto format = [&](const internal::Sheet& sheet, const internal::Block& block, Table& made,
                          internal::XmlBuffer& out) {
    internal::FormatBlock(sheet, block, options, made, out);
  };
  return internal::WriteWorkbook(path, plan, internal::WorkbookXml(plan, options),
                                 internal::PlainStylesXml(), format, pool);
}

}  // namespace msprobe::report
