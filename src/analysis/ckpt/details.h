// Everything that is known of each parameter, beyond the four figures of the main result.
#pragma once

#include <string>

#include "src/analysis/ckpt/result.h"
#include "src/report/table.h"

namespace msprobe::analysis::ckpt {

// One row per pair, then one per parameter without a partner. Red: shapes, unreadable, NaN or
// infinity on one side only; yellow: other differences.
report::Table DetailsTable(const Comparison& comparison);

// The same as one JSON object with both inputs and counts in front; non-finite numbers as text.
std::string DetailsJson(const Comparison& comparison);

// {"only_in_1": [{"name", "reason"}], "only_in_2": [...], "left_out_1": [...], "left_out_2": [...]}
std::string UnmatchedJson(const Comparison& comparison);

}  // namespace msprobe::analysis::ckpt
