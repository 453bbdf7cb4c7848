// The values of a row as the cells of the 26.x table spell them, and when two of them are the same.
#pragma once

#include <string_view>

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare {

inline constexpr std::string_view kNoValue = "N/A";

// "True", "False", "None"; "" for a tensor without the field, "N/A" for everything else.
std::string_view RequiresGradText(const SideRow& row);

// Numbers stay numbers; NaN is "Nan", and infinities stand behind a blank, which keeps spreadsheets
// from losing them.
report::Cell StatisticCell(const StatValue& stat);
// The same for a metric; percents are kept in `table`.
report::Cell MetricCell26(const Metric& metric, report::Table& table);

// Whether both read the same as texts: 1 and 1.0 differ, so do 0.0 and -0.0; NaN equals NaN.
bool SameText(const StatValue& a, const StatValue& b);

}  // namespace msprobe::analysis::compare
