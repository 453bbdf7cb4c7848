// <name>.explorer.json: a graph per side, as Model Explorer opens it.
#pragma once

#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/step_views.h"
#include "src/base/threads.h"

namespace msprobe::analysis::graph {

// <name>.trace.json: the order of execution as a time line, in the event format that Perfetto and
// Chrome's tracing open.

// Every call takes a microsecond, a module as long as what is in it: the order is recorded, the
// duration is not. Both sides are threads of one process, the rank; error in and out of the calls
// of the NPU side are a counter track.
Status WriteTraceFile(const std::filesystem::path& path, const RankView& view);

// .vis: the graph of one rank as JSON, as 8.1.1 writes it.

Status WriteVisFile(const std::filesystem::path& path, const RankView& view, bool with_levels,
                    base::ThreadPool& pool);

// Calls are nodes, modules the namespaces around them, with what is known of them as attributes.
// Edges lead from a call to the next one: which tensor goes where is not recorded.
Status WriteExplorerFile(const std::filesystem::path& path, const RankView& view);

}  // namespace msprobe::analysis::graph
