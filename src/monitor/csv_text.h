// Batches as lines of CSV. How a number is spelled depends on its neighbours: the columns of a
// batch are typed each as a whole, as the Python tool's data frames are.
#pragma once

#include <cstdint>
#include <string>

#include "src/monitor/batch.h"
#include "src/monitor/settings.h"

namespace msprobe::monitor {

struct CsvRules {
  // Numbers are rounded to so many decimals: value * 10^digits to the nearest whole number, ties to
  // even, and divided again.
  int32_t digits = 6;
  // A number that would keep fewer significant digits is rounded to so many instead. 0: none is.
  int32_t significant = 0;
  // A finite number too large to be rounded becomes inf, as the Python tool has it; otherwise it
  // stays what it is.
  bool compat = false;
};

inline CsvRules CsvRulesOf(const Settings& settings) {
  return {.digits = settings.digits,
          .significant = settings.compat ? 0 : settings.significant_digits,
          .compat = settings.compat};
}

// "vpp_stage,name,step[,micro_step],<ops...>\n"
void AppendCsvHeader(const Batch& batch, std::string& out);
// One line per row.
void AppendCsvRows(const Batch& batch, const CsvRules& rules, std::string& out);

}  // namespace msprobe::monitor
