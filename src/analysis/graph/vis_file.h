// .vis: the graph of one rank as JSON, as 8.1.1 writes it.
#pragma once

#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/rank_view.h"
#include "src/base/threads.h"

namespace msprobe::analysis::graph {

Status WriteVisFile(const std::filesystem::path& path, const RankView& view, bool with_levels,
                    base::ThreadPool& pool);

}  // namespace msprobe::analysis::graph
