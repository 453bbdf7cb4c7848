// Rows of one piece of a table's CSV as columns of numbers. A table is read in
// pieces of a few MiB, side by side and in order, so that one large file uses all cores.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
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
// `line` without its end. `wanted` empty: every op. An error when it is not a table of the monitor.
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

// How far the numbers of a series leave what is usual for it: what `top` and `report` sort by. By
// median and median absolute deviation, because the very outliers that are looked for would widen a
// mean and a standard deviation until nothing stands out.

struct SeriesScore {
  double score = 0;  // largest |value - median| in units of 1.4826 * MAD; 0 below three values
  size_t at = 0;     // index of that value
  uint64_t non_finite = 0;      // without what was not measured, see table_rows.h
  size_t first_non_finite = 0;  // index; of no meaning when there is none
};

// The unit of rounding of numbers whose precision is not recorded: of the Python tool, whose tables
// say it nowhere. The decimals that the numbers have, six at least, since those of a few numbers
// may all end earlier; 0 once a number has too many to be rounded.
class RoundingSeen {
 public:
  void Take(double value);
  double unit() const;

 private:
  int digits_ = 6;
  double scale_ = 1e6;
};

// Only finite values enter the score. A spread counts as a thousandth of the median at least, since
// a constant series that moves in its last digit is not news, and as `unit`, which the values are
// rounded to, since a jump from one multiple to the next may have been none.
SeriesScore ScoreSeries(std::span<const double> values, std::vector<double>& scratch,
                        double unit = 0);

// The score of one value against the values before it, of the same rule; 0 below three of them.
double ScoreAgainst(double value, std::span<const double> history, std::vector<double>& scratch,
                    double unit = 0);

}  // namespace msprobe::analysis::monitor
