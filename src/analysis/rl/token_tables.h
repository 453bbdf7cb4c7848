// What is known about tokens, as tables.
#pragma once

#include "src/analysis/rl/result_tables.h"
#include "src/analysis/rl/token_view.h"
#include "src/report/table.h"

namespace msprobe::analysis::rl {

// The worst tokens, one per row; with a column of ids where they are wanted.
report::Table WorstTokensTable(const TokenComparison& comparison, Language language);

// One row per pair of arrays, so that drift over the steps shows.
report::Table TokenStepsTable(const TokenComparison& comparison, Language language);

}  // namespace msprobe::analysis::rl
