// The result as the table that users know: columns, order and cell texts per mode.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"
#include "src/dump/stack_file.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare {

inline constexpr std::string_view kNpuNameColumn = "NPU Name";
inline constexpr std::string_view kStackColumn = "NPU_Stack_Info";

// Headers of the metric columns of a mode, in table order, by RealMetric or StatMetric; empty for
// md5.
std::vector<std::string> MetricColumns(CompareMode mode);
// All headers of a mode.
std::vector<std::string> ResultColumns(CompareMode mode, bool with_stack);

// One table row per result row for which `keep` holds (all when null). `stack` non-null adds the
// column NPU_Stack_Info. The table borrows texts from the sides and the result: it must not outlive
// them.
report::Table MakeResultTable(const Side& npu, const Side& bench, const PairResult& result,
                              const dump::StackFile* stack, const std::vector<bool>* keep);

// A metric as its cell: numbers, "12.5%", or the fixed texts.
report::Cell MetricCell(const Metric& metric, report::Table& table);

}  // namespace msprobe::analysis::compare
