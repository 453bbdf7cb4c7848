// The verdicts of the 26.x line: pass, warning or error per row, with reasons, judged call by call.
#pragma once

#include <string_view>

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare {

// The values of a row as the cells of the 26.x table spell them, and when two of them are the same.

inline constexpr std::string_view kNoValue = "N/A";

// A statistic as the Python tool writes it into a cell: "None", "True", a number as Python spells
// it.
std::string StatText(const StatValue& stat);

// "True", "False", "None"; "" for a tensor without the field, "N/A" for everything else.
std::string_view RequiresGradText(const SideRow& row);

// Numbers stay numbers; NaN is "Nan", and infinities stand behind a blank, which keeps spreadsheets
// from losing them.
report::Cell StatisticCell(const StatValue& stat);
// The same for a metric; percents are kept in `table`.
report::Cell MetricCell26(const Metric& metric, report::Table& table);

// Whether both read the same as texts: 1 and 1.0 differ, so do 0.0 and -0.0; NaN equals NaN.
bool SameText(const StatValue& a, const StatValue& b);

// Differences and relative errors of the statistics of a matched pair, by the rules of the 26.x
// line.

// Equal texts give 0; what is not a number gives the words Nan, inf, -inf, N/A or Diff. Fills
// metrics and distance; the verdict is made call by call (precision_compare.h).
void CompareStatistics26(const SideRow& npu, const SideRow& bench, RowResult& result);

struct JudgeRules {
  // More than the Python tool finds: rows without partner, unreadable tensors, relative errors that
  // are infinite.
  bool strict = false;
  // Training against inference: requires_grad plays no part, fused projections may differ in dtype
  // and shape, axes of size 1 do not count.
  TrainingBackend backend = TrainingBackend::kNone;
  // Each side is split over ranks in its own way.
  bool ignore_shapes = false;
};

// Sets verdict (kPass, kWarning; an error is kNo, or kDifferent for checksums), fill (yellow, red)
// and message: a JSON list of texts that begin with "error: ", "warning: " or, where no verdict
// hangs on it, "note: ". Rows of one call stand together.
void JudgeCalls(const Side& npu, const Side& bench, const JudgeRules& rules, PairResult& result);

// "pass", "warning", "error".
std::string_view ResultWord(Verdict verdict);

}  // namespace msprobe::analysis::compare
