// Numbers as bytes that compress well and that a browser reads back with exact arithmetic: the
// columns inside of a report's page (decoded by tools/web/monitor_report/column_code.js).
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace msprobe::analysis::monitor {

// One statistic of one series.
struct ColumnToCode {
  std::span<const double> values;  // empty: the series lacks the statistic
  // Another distance at which values resemble each other: that of the same step on the rank before.
  // 0: none.
  uint32_t rank_distance = 0;
};

// Appends a block:
//   per column 4 bytes: kind, distance (0 none, 1 the value before, 2 rank_distance), planes, 0
//   per plane 0 .. 7, per column that has it: one byte of every value's code, the lowest first
// A code is 0 NaN, 1 +infinity, 2 -infinity, else 3 + zigzag of the difference of two integers k:
// the value's own and that at the distance before (0 at the start). A non-finite value takes the k
// before over. Kinds tell what k is:
//   0 .. 15  value = k / 10^kind, exactly: the monitor rounds to a number of digits
//   16       the value as float32, its bits as an integer that rises with the value
//   17       no k: the 8 bytes of the double itself, codes without the 3 above
//   255      no values
// A column of decimals takes kind 16 where that needs fewer bits, which keeps 7 digits; of values
// beyond float32's range kind 17.
void AppendColumns(std::span<const ColumnToCode> columns, std::string& out);

}  // namespace msprobe::analysis::monitor
