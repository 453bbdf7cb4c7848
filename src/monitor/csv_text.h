// Batches as lines of CSV. How a number is spelled depends on its neighbours: the columns of a
// batch are typed each as a whole, as the Python tool's data frames are.
#pragma once

#include <cstdint>
#include <string>

#include "src/monitor/batch.h"

namespace msprobe::monitor {

struct CsvRules {
  // Numbers are rounded to so many decimals: value * 10^digits to the nearest whole number, ties to
  // even, and divided again.
  int32_t digits = 6;
  // A finite number too large to be rounded becomes inf, as the Python tool has it; otherwise it
  // stays what it is.
  bool compat = false;
};

// "vpp_stage,name,step[,micro_step],<ops...>\n"
void AppendCsvHeader(const Batch& batch, std::string& out);
// One line per row.
void AppendCsvRows(const Batch& batch, const CsvRules& rules, std::string& out);

}  // namespace msprobe::monitor
