// One run, or two laid over each other, as a page for browsers.
#pragma once

#include "msprobe/status.h"

#include "src/analysis/monitor/report/options.h"
#include "src/analysis/monitor/report/result.h"

namespace msprobe::analysis::monitor {

// kUnsupported when this program was built without the page.
Result<ReportResult> RunReport(const ReportOptions& options);

}  // namespace msprobe::analysis::monitor
