// One rank of a graph as the page of `graph --format html` takes it (docs/formats/graph_page.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/analysis/graph/rank_view.h"
#include "src/report/web_page.h"

namespace msprobe::analysis::graph {

// The trees of both sides, what was found at their nodes, and their stacks. `id`: the first part of
// the names of the blocks, "g3". The view must outlive them.
std::vector<report::PageBlock> TreeBlocks(const RankView& view, const std::string& id);

// The tensors and arguments of all nodes, `most_rows` at most on each side: those of the nodes in
// front.
std::vector<report::PageBlock> TensorBlocks(const RankView& view, const std::string& id,
                                            uint64_t most_rows);

}  // namespace msprobe::analysis::graph
