#include "src/analysis/inspect/cells.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::inspect {

report::Cell CountCell(uint64_t count) {
  return report::Cell::Integer(static_cast<int64_t>(std::min<uint64_t>(count, INT64_MAX)));
}

report::Cell FlagCell(bool value) { return report::Cell::Text(value ? "true" : "false"); }

report::Cell NumberCell(double value) {
  if (std::isnan(value)) {
    return report::Cell::Text("nan");
  }
  if (std::isinf(value)) {
    return report::Cell::Text(value > 0 ? "inf" : "-inf");
  }
  return report::Cell::Number(value);
}

std::string Counted(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", base::FormatCount(count), noun, count == 1 ? "" : "s");
}

bool RowFilter::Matches(std::string_view name) const {
  return options_.name_filter.empty() || base::GlobMatch(options_.name_filter, name);
}

bool RowFilter::TakePlace() {
  if (options_.row_limit > 0 && taken_ >= options_.row_limit) {
    ++result_.rows_left_out;
    return false;
  }
  ++taken_;
  return true;
}

}  // namespace msprobe::analysis::inspect
