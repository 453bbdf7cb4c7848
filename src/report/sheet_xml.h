// How a table becomes the XML of worksheets, cut into blocks of about a
// megabyte that can be formatted and compressed independently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::report::internal {

// Indexes into the cell formats of a plain workbook's styles.xml.
enum class Style : uint8_t { kPlain, kYellow, kRed, kHeader };

// What control characters in a text become.
enum class Controls : uint8_t {
  kReplaced,  // carriage returns are references, all others '_'
  kEscaped,   // _x000D_, as the format has it and only some readers undo
};

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
      Grow(bytes);
    }
    return memory_.get() + size_;
  }
  void SetEnd(const char* end) { size_ = static_cast<size_t>(end - memory_.get()); }
  void Append(std::string_view text);
  void Clear() { size_ = 0; }
  std::string_view text() const { return {memory_.get(), size_}; }

 private:
  void Grow(size_t bytes);

  std::unique_ptr<char[]> memory_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// The blocks of a sheet and an upper bound of its XML's size. Depends on nothing but the table.
struct SheetPlan {
  std::vector<Block> blocks;
  uint64_t bound_bytes = 0;
};
SheetPlan PlanSheet(const Sheet& sheet);

// Replaces `out` by the XML of one block of a plain sheet.
void FormatBlock(const Sheet& sheet, const Block& block, const XlsxOptions& options,
                 XmlBuffer& out);

// Formats the cells of rows; what repeats is prepared once.
class RowFormatter {
 public:
  RowFormatter(size_t columns, Controls controls);

  // `styles`: one per cell, what StyleMark gave. Empty cells of no style are left out. `sheet_row`
  // counts from 1.
  void Row(std::span<const Cell> cells, size_t sheet_row, std::span<const std::string_view> styles,
           XmlBuffer& out) const;

 private:
  void PutCell(const Cell& cell, std::string_view open, std::string_view row,
               std::string_view style, XmlBuffer& out) const;

  std::vector<std::string> opens_;
  Controls controls_;
};

// The part of a cell's tag that names its format; format 0 is the one of cells that name none.
std::string StyleMark(size_t format);

// The beginning of every worksheet; `frozen_rows` stay while scrolling.
void PutSheetHead(size_t frozen_rows, XmlBuffer& out);

// "A", "Z", "AA": the name of a column counted from 0.
std::string ColumnName(size_t column);

// `text` made safe for XML content and double-quoted attributes: markup escaped, carriage returns
// as references, everything that XML 1.0 forbids (control characters, bytes that are no UTF-8,
// surrogates, U+FFFE, U+FFFF) as '_', unless `controls` says otherwise. Writes at most
// kEscapeFactor bytes per byte of text; returns the end.
inline constexpr size_t kEscapeFactor = 7;
char* EscapeXml(std::string_view text, char* out, Controls controls = Controls::kReplaced);
std::string EscapedXml(std::string_view text);

// The longest front of `text` with at most `units` UTF-16 units.
std::string_view FirstUnits(std::string_view text, size_t units);
// The text that a cell can hold: at most 32,767 UTF-16 units.
inline std::string_view CutToCell(std::string_view text) { return FirstUnits(text, 32767); }

}  // namespace msprobe::report::internal
