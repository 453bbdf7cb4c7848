// The autograd graph between the two ends of one call.
#pragma once

#include <utility>
#include <vector>

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// A place in the graph: the result `number` of a node, or a leaf.
struct GraphEdge {
  PyObject* node;  // borrowed; null for a leaf
  long number;
  PyObject* tensor;  // borrowed
};

// A node of the call from which a gradient flows over the edge of a target (`ways`), or over that of a result (`inner_ways`): another result
// was computed from it. Pairs of the place among the gradients that the node sends and the index of the target or result.
struct FoundNode {
  using Ways = std::vector<std::pair<size_t, size_t>>;
  Ref node;
  Ways ways;
  Ways inner_ways;
};

// Walks from `results` (what came out of a call) back to `targets` (what went in). Nodes in the targets end the walk, and so do those that
// were made before the call, as far as PyTorch tells: their sequence number is below `since` (-1: not asked). At most `limit` nodes are
// visited; `complete` says whether that was enough. False with a Python error.
bool WalkGraph(const std::vector<GraphEdge>& results, const std::vector<GraphEdge>& targets, long long since, size_t limit,
               std::vector<FoundNode>& found, bool& complete);

}  // namespace msprobe::python
