// The result as a table, one row per call, or per call and side where there are two dumps.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/recheck/options.h"
#include "src/analysis/recheck/result.h"
#include "src/base/threads.h"
#include "src/report/table.h"

namespace msprobe::analysis::recheck {

report::Table MakeTable(const Answer& answer);
// recheck_result_<time>.csv and its like in options.output, when that is not empty; adds them to
// answer.files.
Status WriteTables(const Options& options, base::ThreadPool& pool, Answer& answer);

}  // namespace msprobe::analysis::recheck
