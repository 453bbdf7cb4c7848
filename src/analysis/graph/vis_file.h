// .vis: the graph of one rank as JSON, as 8.1.1 writes it.
#pragma once

#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/rank_view.h"
#include "src/base/thread_pool.h"

namespace msprobe::analysis::graph {

// `all`: the views of the step, where the other ends of communications are looked up.
Status WriteVisFile(const std::filesystem::path& path, const RankView& view,
                    const std::vector<RankView>& all, bool with_levels, base::ThreadPool& pool);

}  // namespace msprobe::analysis::graph
