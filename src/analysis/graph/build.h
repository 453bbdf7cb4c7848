// From construct.json to the tree.
#pragma once

#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"

namespace msprobe::analysis::graph {

struct BuildOptions {
  Edition edition = Edition::kV26;  // whose tree it becomes
  bool complete_stacks = true;  // false: the one line of each stack that calls the module or API
  bool collect = true;          // false: calls between modules are gathered already
};

// The tree of a rank; borrows its texts from `dump`. Modules that were computed a second time stand
// below the module whose backward pass asked for them (26.x). Runs of calls between modules are
// gathered in collections. A node that only a cycle of parents reaches becomes a child of the root,
// with a warning.
Graph BuildGraph(const RankDump& dump, const BuildOptions& options,
                 std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::graph
