// The autograd graph between the two ends of one call.
#pragma once

#include "tools/python/native/arguments.h"

namespace msprobe::python {

// graph_walk(results, targets, since, limit) ->
//     ([(node, ((position, target), ...), ((position, result), ...)), ...], complete)
//
// Walks from `results` (what came out of a call) back to `targets` (what went in), both edges: lists
// of (node or None, output number, tensor), the node None for a leaf. Found are the nodes of the
// call from which a gradient flows over the edge of a target, or over that of a result: another
// result was computed from it. `position` is the place among the gradients that the node sends,
// `target` and `result` are indexes. Nodes in the targets end the walk, and so do those that were
// made before the call, as far as PyTorch tells: their sequence number is below `since` (-1: not
// asked). At most `limit` nodes are visited; `complete` says whether that was enough.
PyObject* GraphWalk(List results, List targets, long long since, long limit);

}  // namespace msprobe::python
