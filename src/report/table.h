// The one table model behind every result: named columns, rows of typed cells, an optional fill per
// row. Writers turn it into xlsx, csv, JSON lines or terminal text; they know nothing about
// tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/strings.h"

namespace msprobe::report {

// Numbers for people, in one way everywhere.

// `digits` significant ones; NaN, Infinity, -Infinity.
std::string NumberText(double value, int digits = 6);

enum class CellKind : uint8_t { kEmpty, kText, kInteger, kNumber, kBoolean };

// 16 bytes; text is borrowed from the table's arena or from static storage.
class Cell {
 public:
  Cell() : integer_(0) {}
  static Cell Text(std::string_view text);  // must outlive the cell
  static Cell Integer(int64_t value) { return Cell(CellKind::kInteger, value); }
  // Non-finite numbers are written as text by every writer: decide before.
  static Cell Number(double value) {
    Cell cell(CellKind::kNumber, 0);
    cell.number_ = value;
    return cell;
  }
  // TRUE or FALSE, as spreadsheets spell it.
  static Cell Boolean(bool value) { return Cell(CellKind::kBoolean, value ? 1 : 0); }

  CellKind kind() const { return kind_; }
  std::string_view text() const { return {text_, length_}; }
  int64_t integer() const { return integer_; }
  double number() const { return number_; }
  bool boolean() const { return integer_ != 0; }
  std::string_view boolean_text() const { return boolean() ? "TRUE" : "FALSE"; }

 private:
  Cell(CellKind kind, int64_t integer) : integer_(integer), kind_(kind) {}

  union {
    const char* text_;
    int64_t integer_;
    double number_;
  };
  uint32_t length_ = 0;
  CellKind kind_ = CellKind::kEmpty;
};

enum class Fill : uint8_t { kNone, kYellow, kRed };

using base::TextArena;

class Table {
 public:
  Table() = default;
  Table(std::string name, std::vector<std::string> columns);

  // A table whose rows are made when somebody writes them, block by block: cells of all rows take
  // more memory than what they are made of. `add` adds `count` rows from `first` on to `rows`, an
  // empty table of the same columns; it is called on any thread, for several blocks at a time, and
  // for some rows more than once. `text_bytes` are those of all cells, or more.
  using AddRows = std::function<void(size_t first, size_t count, Table& rows)>;
  Table(std::string name, std::vector<std::string> columns, size_t row_count, uint64_t text_bytes,
        AddRows add);

  const std::string& name() const { return name_; }  // the sheet's name
  const std::vector<std::string>& columns() const { return columns_; }
  size_t row_count() const { return add_rows_ ? made_row_count_ : fills_.size(); }
  bool is_made_in_blocks() const { return add_rows_ != nullptr; }
  uint64_t text_bytes() const { return text_bytes_; }  // of a table that is made in blocks

  // Some rows of a table, numbered from 0.
  class Rows {
   public:
    Rows(const Table& table, size_t first) : table_(table), first_(first) {}
    std::span<const Cell> row(size_t index) const { return table_.row(first_ + index); }
    Fill fill(size_t index) const { return table_.fill(first_ + index); }

   private:
    const Table& table_;
    size_t first_;
  };
  // Rows [first, first + count), valid until `scratch` is used again: rows that have to be made are
  // made there.
  Rows Block(size_t first, size_t count, Table& scratch) const;

  // Both not of a table that is made in blocks.
  std::span<const Cell> row(size_t index) const;
  Fill fill(size_t index) const { return fills_[index]; }

  void Reserve(size_t rows);
  // `cells` must have one cell per column. Texts are not copied: pass kept or static ones.
  void AddRow(std::span<const Cell> cells, Fill fill = Fill::kNone);
  void AddRow(std::initializer_list<Cell> cells, Fill fill = Fill::kNone) {
    AddRow(std::span(cells.begin(), cells.size()), fill);
  }
  std::string_view Keep(std::string_view text) { return arena_->Keep(text); }
  Cell KeepText(std::string_view text) { return Cell::Text(Keep(text)); }
  // Cells may borrow from `texts` from now on.
  void KeepAlive(std::shared_ptr<const TextArena> texts) { borrowed_.push_back(std::move(texts)); }

 private:
  std::string name_;
  std::vector<std::string> columns_;
  // Blocks of a power of two of rows: a table that grows never has its cells twice in memory.
  std::vector<std::vector<Cell>> blocks_;
  unsigned block_shift_ = 0;  // rows of a block, as an exponent of two
  std::vector<Fill> fills_;
  std::unique_ptr<TextArena> arena_ = std::make_unique<TextArena>();
  std::vector<std::shared_ptr<const TextArena>> borrowed_;
  AddRows add_rows_;
  size_t made_row_count_ = 0;
  uint64_t text_bytes_ = 0;
};

// How a cell reads as plain text: integers in full, numbers by printf's %.16g, booleans as TRUE or
// FALSE, empty as "".
std::string CellText(const Cell& cell);

}  // namespace msprobe::report
