// Tables of a monitored run as TensorBoard event files.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/monitor/csv2tb/options.h"
#include "src/analysis/monitor/csv2tb/result.h"

namespace msprobe::analysis::monitor {

// <output>/rank<R>/<table>/events.out.tfevents...: scalars "vp<stage>:<name>[:micro<m>]/<op>", by
// name, step and column. Folders of tables that are there already are replaced. Runs that went on
// in a further folder are put together.
Result<Csv2TbResult> RunCsv2Tb(const Csv2TbOptions& options);

}  // namespace msprobe::analysis::monitor
