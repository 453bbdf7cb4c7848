// <name>.trace.json: the order of execution as a time line, in the event format that Perfetto and
// Chrome's tracing open.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/analysis/graph/rank_view.h"

namespace msprobe::analysis::graph {

// Every call takes a microsecond, a module as long as what is in it: the order is recorded, the
// duration is not. Both sides are threads of one process, the rank; error in and out of the calls
// of the NPU side are a counter track.
Status WriteTraceFile(const std::filesystem::path& path, const RankView& view);

}  // namespace msprobe::analysis::graph
