// Cells as all tables of this room spell them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/analysis/inspect/options.h"
#include "src/analysis/inspect/result.h"
#include "src/report/table.h"

namespace msprobe::analysis::inspect {

report::Cell CountCell(uint64_t count);
report::Cell FlagCell(bool value);      // "true", "false"
report::Cell NumberCell(double value);  // "nan", "inf", "-inf" where a number cannot say it

// "1 tensor", "1,234 tensors".
std::string Counted(uint64_t count, std::string_view noun);

// Decides which rows of a result are shown.
class RowFilter {
 public:
  RowFilter(const Options& options, Contents& result) : options_(options), result_(result) {}

  bool Matches(std::string_view name) const;
  // Whether a row that matches still has a place; counts those that have not.
  bool TakePlace();

 private:
  const Options& options_;
  Contents& result_;
  uint64_t taken_ = 0;
};

}  // namespace msprobe::analysis::inspect
