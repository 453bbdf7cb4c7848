// The result as the table that users know. Columns, their order and the spelling of cells follow
// from the edition and the mode of the result.
#pragma once

#include <span>
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
std::vector<std::string> ResultColumns(CompareMode mode, bool with_stack,
                                       Edition edition = Edition::kV8, bool with_layouts = false,
                                       bool with_pairing = false,
                                       std::span<const std::string> user_columns = {});

// One table row per result row for which `keep` holds (all when null). `stack` non-null adds the
// column NPU_Stack_Info. The table borrows texts from the sides and the result: it must not outlive
// them.
report::Table MakeResultTable(const Side& npu, const Side& bench, const PairResult& result,
                              const dump::StackFile* stack, const std::vector<bool>* keep);
// The same, made in blocks when it is written; `keep` is not looked at afterwards. Its text_bytes
// take a walk over all rows, and only workbooks need them.
report::Table ResultTableInBlocks(const Side& npu, const Side& bench, const PairResult& result,
                                  const dump::StackFile* stack, const std::vector<bool>* keep,
                                  bool needs_text_bytes);

// Numbers stay numbers, percents are kept in `table`. Infinities are texts with a tab (v8) or a
// blank (v26), which keeps spreadsheets from reading them as something else.
report::Cell MetricCell(const Metric& metric, report::Table& table, Edition edition = Edition::kV8);
// `null` is the text of a null.
report::Cell StatisticCell(const StatValue& stat, Edition edition, std::string_view null = "None");

// A statistic or metric as Python spells it: "None", "True", "1e-05", "2.5%".
std::string StatText(const StatValue& stat);
std::string MetricText(const Metric& metric);
// "True", "False", "None"; "" for a tensor without the field, "N/A" for everything else.
std::string_view RequiresGradText(const SideRow& row);
// "['a', 'b']", as Python prints a list of texts.
std::string PythonTextList(std::span<const std::string_view> texts);

// Two log lines per row of a comparison of tensors (-tensor_log): nothing for other modes.
void AppendRowLog(const Side& npu, const Side& bench, const PairResult& result,
                  std::vector<std::string>& lines);

}  // namespace msprobe::analysis::compare
