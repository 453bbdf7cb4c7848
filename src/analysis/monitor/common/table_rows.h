// Inside of the room: rows of one piece of a table's CSV as columns of numbers. A table is read in
// pieces of a few MiB, side by side and in order, so that one large file uses all cores.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::monitor {

// What stands in a column where there was nothing to be measured: no tensor, as where a gradient is
// absent, or none of its elements. A NaN of its own bits: whoever only computes needs no case for
// it, and whoever counts NaN can leave it out.
constexpr double kNoNumber = std::bit_cast<double>(uint64_t{0x7FF8'0000'0000'0A5E});
constexpr bool IsNoNumber(double value) {
  return std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(kNoNumber);
}

namespace internal {

// What the first line of a table says.
struct TableHead {
  static constexpr int kNoColumn = -1;
  int stage = kNoColumn;
  int name = kNoColumn;
  int step = kNoColumn;
  int micro_step = kNoColumn;
  int shape = kNoColumn;
  size_t columns = 0;
  bool tells_absence = false;    // it has a column that every tensor fills: shape, dtype or nans
  std::vector<std::string> ops;  // columns of numbers, in their order
  std::vector<int> op_of;        // per column: index into ops, or kNoColumn
};
// `line` without its end. `wanted` empty: every op. An error when it is no table of the monitor.
Result<TableHead> ReadTableHead(std::string_view line, const std::vector<std::string>& wanted);

// A piece of a file, cut at line ends.
struct TableRows {
  struct Name {
    int32_t stage = 0;
    int32_t micro_step = -1;
    std::string name;
    uint32_t rows = 0;
  };
  struct Diagnostic {
    uint64_t line;  // counted from 1 within the piece
    std::string text;
  };
  static constexpr size_t kMostDiagnostics = 20;

  std::vector<Name> names;
  std::vector<uint32_t> name_of;  // per row
  std::vector<int64_t> steps;     // per row
  std::vector<double> values;     // rows x ops; kNoNumber where nothing was measured
  std::vector<Diagnostic> diagnostics;
  uint64_t more_diagnostics = 0;
  uint64_t lines = 0;
};
// Whether `text`, which begins behind a line end, begins with a row and not with the rest of a name
// that has line ends, so that a piece may begin there.
bool BeginsWithRow(std::string_view text, const TableHead& head);

// `text` ends with a line end. Rows that break the rules are left out with a diagnostic.
TableRows ReadTableRows(std::string_view text, const TableHead& head);

}  // namespace internal
}  // namespace msprobe::analysis::monitor
