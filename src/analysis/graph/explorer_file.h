// <name>.explorer.json: a graph per side, as Model Explorer opens it.
#pragma once

#include <filesystem>

#include "msprobe/status.h"

#include "src/analysis/graph/rank_view.h"

namespace msprobe::analysis::graph {

// Calls are nodes, modules the namespaces around them, with what is known of them as attributes.
// Edges lead from a call to the next one: which tensor goes where is not recorded.
Status WriteExplorerFile(const std::filesystem::path& path, const RankView& view);

}  // namespace msprobe::analysis::graph
