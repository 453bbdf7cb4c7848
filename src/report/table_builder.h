// Inside of the room: a table from cells that arrive row by row, when its width is known only at
// the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/report/readers.h"
#include "src/report/table.h"

namespace msprobe::report::internal {

class TableBuilder {
 public:
  // `left`: what all tables of the file may still hold.
  explicit TableBuilder(ReadLimits& left) : left_(left) {}

  // A cell of the current row; the last one at a column counts. Texts must be kept ones.
  void Add(size_t column, const Cell& cell);
  void EndRow();
  std::string_view Keep(std::string_view text) { return texts_->Keep(text); }

  size_t row_count() const { return row_ends_.size(); }
  // No more cells should be added: Finish will fail.
  bool full() const { return cells_.size() > left_.cells; }
  // The first row becomes the columns. Refuses a table whose cells would not fit the limit, or that
  // is nearly all gaps: one cell far to the right makes every row wide.
  Result<Table> Finish(std::string name);

 private:
  struct PlacedCell {
    Cell cell;
    uint32_t column;
  };
  ReadLimits& left_;
  std::vector<PlacedCell> cells_;
  std::vector<size_t> row_ends_;
  size_t width_ = 0;
  std::shared_ptr<TextArena> texts_ = std::make_shared<TextArena>();
};

}  // namespace msprobe::report::internal
