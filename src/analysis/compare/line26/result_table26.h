// The table of the 26.x line: its columns per mode, Result and Err_message in place of the older
// verdicts, no colours.
#pragma once

#include <string>
#include <vector>

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"
#include "src/dump/stack_file.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare {

// Two log lines per row of a comparison of tensors: -tensor_log.

// Nothing for statistics and checksums.
void AppendRowLog(const ComparedPair& pair, std::vector<std::string>& lines);

std::vector<std::string> ResultColumns26(CompareMode mode, bool with_stack);

// As MakeResultTable of result_table.h. The table borrows texts from the sides and the result.
report::Table MakeResultTable26(const Side& npu, const Side& bench, const PairResult& result,
                                const dump::StackFile* stack, const std::vector<bool>* keep);

}  // namespace msprobe::analysis::compare
