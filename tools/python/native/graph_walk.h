// The autograd graph between the two ends of one call.
#pragma once

#include "tools/python/native/python_api.h"

namespace msprobe::python {

// graph_walk(roots, targets, since, limit) -> ([(node, ((position, target), ...)), ...], complete)
//
// Walks from the nodes `roots` (what came out of a call) back to the edges `targets` (what went in):
// a list of (node or None, output number, tensor), the node None for a leaf. Found are the nodes of
// the call from which a gradient flows over such an edge: `position` is its place among the node's
// gradients, `target` the index of the edge. Nodes in the targets end the walk, and so do those that
// were made before the call, as far as PyTorch tells: their sequence number is below `since` (-1:
// not asked). At most `limit` nodes are visited; `complete` says whether that was enough.
PyObject* GraphWalk(PyObject* module, PyObject* args);

}  // namespace msprobe::python
