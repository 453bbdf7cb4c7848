"""Gradients at both ends of a call of PyTorch, observed at the nodes of the autograd graph.

Nothing is put in their way: arguments and results stay the objects they are, and no node is added.
When a call ends, the graph is walked from its results back to the edges that lead to its arguments.
The nodes with such an edge are hooked: what they send over it, summed, is the gradient of the
argument within this call. The gradient of a result is what its node is given.

Autograd cannot tell some things apart, and then neither can this:

- a tensor given at several places has its gradient at the first of them, zero at the others;
- a result that the call did not compute (its argument, or the result of a call inside it) shows the
  gradient of that tensor in all its uses;
- a view whose base was overwritten during the call has no gradient.

Where one result of a call was computed from another one, what flows between them inside the call is
taken away from the gradient of the latter: exactly where nothing else uses it, else by subtraction.
"""
import contextlib
import threading
import weakref

import torch

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._session import guarded

# Nodes of one call that are looked at. One node costs about half a microsecond.
_MOST_NODES = 50000
# The number that the next node of this thread gets: what is below was made before. Not there
# before PyTorch 2.
_sequence_number = getattr(torch._C._autograd, "_get_sequence_nr", lambda: -1)
_MAX_DEPTH = 50


def collect(value, found, depth=0):
    """Appends the tensors in `value` that require a gradient, in order."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            found.append(value)
    elif depth < _MAX_DEPTH:
        if isinstance(value, (list, tuple)):
            for item in value:
                collect(item, found, depth + 1)
        elif isinstance(value, dict):
            for item in value.values():
                collect(item, found, depth + 1)


class _Thread(threading.local):
    """What the forward pass of one thread is in."""

    def __init__(self):
        self.calls = []  # outermost first
        self.boundaries = {}  # id of a tensor: the last boundary of a call that it crossed


_thread = _Thread()
_on_leaves = []  # (node of a leaf, handle of our hook): they outlive the graph
_unfinished = {}  # id: the calls whose gradients began to come


def settle():
    """Calls whose gradients began to come get no more: what came is told."""
    for call in list(_unfinished.values()):
        call.finish()


def let_go():
    """Takes away what would stay at leaves after their graph is gone."""
    settle()
    leaves, _on_leaves[:] = list(_on_leaves), []
    for _, handle in leaves:
        handle.remove()
    _thread.boundaries.clear()


def attach_unchanged(tensor, record):
    """For a function that returned its argument as it was: record(gradient) is called when the
    gradient passes the boundary that the tensor crossed last. False where it crossed none, or was
    computed since: then its node belongs to the function."""
    boundary = _boundary_of(tensor)
    if boundary is None:
        return False
    boundary.records.append(record)
    return True


def _boundary_of(tensor):
    found = _thread.boundaries.get(id(tensor))
    if found is None or found.tensor() is not tensor or found.version != tensor._version:
        return None
    return found


class _Boundary:
    """Where a tensor goes into a call or comes out of it. `records` see the gradient after the call
    did."""

    __slots__ = ("tensor", "version", "call", "index", "point", "records", "__weakref__")

    def __init__(self, tensor, call, index, point=None):
        key, boundaries = id(tensor), _thread.boundaries

        def forget(reference):
            known = boundaries.get(key)
            if known is not None and known.tensor is reference:
                del boundaries[key]

        self.tensor = weakref.ref(tensor, forget)
        self.version = tensor._version
        self.call = call
        self.index = index
        self.point = point  # of a result; None: of an argument
        self.records = []


class _Point:
    """The boundaries that one tensor crossed without being computed anew, in the order of the
    forward pass. Gradients pass them in the opposite order."""

    __slots__ = ("number", "steps")

    def __init__(self, number):
        self.number = number
        self.steps = []

    @guarded
    def of_node(self, gradients):
        self.run(gradients[self.number])

    def run(self, gradient):
        for step in reversed(self.steps):
            step(gradient)


class CallGradients:
    """One call. `on_begin()` runs when the first gradient of what came out is there, before
    anything that the call computed gets one; `on_end(of_outputs, of_inputs, complete)` when those of
    what went in are known, lists with None where no gradient came. Both may run again: every
    backward pass does. `complete`: whether all gradients can be seen; it is known once the call has
    ended. What is called must not hold this object, so that it goes with the graph."""

    __slots__ = ("complete", "_on_begin", "_on_end", "_nested", "_since", "_edges", "_tensors",
                 "_inside", "_of_inside",
                 "_versions", "_saved", "_inner", "_places", "_direct",
                 "_nodes", "_outputs", "_open", "_of_outputs", "_of_inputs", "_fired", "_arrived",
                 "_parts", "_records", "__weakref__")

    def __init__(self, on_begin, on_end, nested=True):
        self.complete = True
        self._on_begin = on_begin
        self._on_end = on_end
        self._nested = nested  # calls inside this one are observed as well
        self._open = False
        self._inner = None
        self._records = ()
        self._nodes = self._outputs = 0
        self._direct = {}
        self._edges = self._tensors = self._saved = ()

    # ---- in the forward pass ----

    def see_inputs(self, tensors):
        """The call begins. `tensors`: what it is given, as far as it requires a gradient."""
        self._tensors = tensors
        self._since = _sequence_number()
        self._edges = [(tensor.grad_fn, tensor.output_nr, tensor) for tensor in tensors]
        self._versions = [tensor._version for tensor in tensors]
        self._places = _first_places(tensors)
        if not self._nested:
            return
        boundaries = _thread.boundaries
        saved = []
        records = []
        for index in self._places:
            tensor = tensors[index]
            saved.append((id(tensor), boundaries.get(id(tensor))))
            boundary = boundaries[id(tensor)] = _Boundary(tensor, self, index)
            records.append((index, boundary.records))
        self._saved = saved
        self._records = records
        _thread.calls.append(self)

    def leave(self):
        """The call has ended, perhaps by an exception."""
        if not self._nested:
            return
        calls, boundaries = _thread.calls, _thread.boundaries
        if self in calls:
            del calls[calls.index(self):]
        for key, boundary in self._saved:
            if boundary is None:
                boundaries.pop(key, None)
            else:
                boundaries[key] = boundary
        self._saved = ()
        self._records = [(index, records) for index, records in self._records if records]

    def see_outputs(self, outputs):
        """The call has ended well. `outputs`: what it gives, as far as it requires a gradient."""
        self.leave()
        tensors, edges = self._tensors, self._edges
        try:
            if outputs:
                self._observe(tensors, edges, outputs)
        finally:
            self._tensors = self._edges = ()  # no node is held by what is held by nodes

    def _observe(self, tensors, edges, outputs):
        results = _first_places(outputs)
        self._direct = self._find_unchanged(edges, outputs, results)
        self._nodes = self._hook_nodes(edges, outputs, [index for index in results
                                                        if index not in self._direct])
        if self._overwritten(tensors):
            self._complete_or_not(tensors)
        self._outputs = len(results)
        self._of_outputs = [None] * len(outputs)
        for index in results:
            self._watch_output(index, outputs[index])
        # Something that is not used leaves nodes that never run: the call ends when the gradient
        # arrives at what made its arguments.
        if len(results) > 1 and self._nodes:
            for index in self._places:
                self._end_at(tensors[index], edges[index][:2])

    def _find_unchanged(self, edges, outputs, results):
        """{place of a result: the places of the arguments that it is}"""
        found = {}
        for index in results:
            tensor = outputs[index]
            node = tensor.grad_fn
            same = [at for at in self._places if edges[at][0] is node
                    and (edges[at][1] == tensor.output_nr if node is not None
                         else tensor is edges[at][2])]
            if same:
                found[index] = same
        return found

    def _hook_nodes(self, edges, outputs, computed):
        """Hooks the nodes of the call that send a gradient to its arguments, or to one of its
        results from another one; how many there are. `computed`: the places of the results that
        the call made."""
        self._parts = [0] * len(edges)
        self._inside = {}
        ends = {edge[0] for edge in edges}
        computed = [at for at in computed
                    if outputs[at].grad_fn is not None and outputs[at].grad_fn not in ends]
        if not computed or not edges and len(computed) == 1:
            return 0
        results = [(outputs[at].grad_fn, outputs[at].output_nr, outputs[at]) for at in computed]
        found, self.complete = _native.graph_walk(results, [edges[at] for at in self._places],
                                                  self._since, _MOST_NODES)
        if not self.complete:
            return 0
        repeated = len(self._places) != len(edges)
        for node, ways, inner_ways in found:
            if repeated:
                ways = [(position, self._places[target]) for position, target in ways]
            for _, at in ways:
                self._parts[at] += 1
            if inner_ways:
                inner_ways = [(position, computed[result]) for position, result in inner_ways]
                for _, at in inner_ways:
                    self._inside[at] = self._inside.get(at, 0) + 1
            node.register_hook(self._hook(ways, inner_ways))
        return len(found)

    def _overwritten(self, tensors):
        return [tensor._version for tensor in tensors] != self._versions

    def _complete_or_not(self, tensors):
        """A view whose base was overwritten has another node since."""
        unchanged = {at for places in self._direct.values() for at in places}
        if any(tensors[at]._is_view() and not self._parts[at] and at not in unchanged
               for at in self._places):
            self.complete = False

    def _watch_output(self, index, tensor):
        boundary = _Boundary(tensor, self, index)
        records = boundary.records

        def arrive(gradient):  # does not hold the boundary, which holds the point of this step
            gradient = self._output(index, gradient)
            for record in records:
                record(gradient)

        known = _boundary_of(tensor)
        point = self._point_at(tensor, (tensor.grad_fn, tensor.output_nr), known)
        point.steps.append(arrive)
        boundary.point = point
        if self._nested:
            _thread.boundaries[id(tensor)] = boundary

    def _end_at(self, tensor, edge):
        point = self._point_at(tensor, edge, _boundary_of(tensor))
        point.steps.append(lambda gradient: self.finish())

    @staticmethod
    def _point_at(tensor, edge, known):
        """Where gradients of a tensor pass on their way to what made it."""
        if known is not None:
            if known.point is not None:
                return known.point
            # An argument of the call around: its gradient within that call.
            inner = known.call._inner
            if inner is None:
                inner = known.call._inner = {}
            point = inner.get(known.index)
            if point is None:
                point = inner[known.index] = _Point(0)
            return point
        node, number = edge
        point = _Point(number)
        if node is not None:
            node.register_prehook(point.of_node)
        else:
            [node] = accumulators([tensor])
            if node is not None:
                _on_leaves.append((node, node.register_prehook(point.of_node)))
        return point

    def _hook(self, ways, inner_ways):
        @guarded
        def of_node(gradients, _):
            if self._open:
                self._inputs(ways, inner_ways, gradients)

        return of_node

    # ---- in the backward pass ----

    def _output(self, index, gradient):
        if self._open and index in self._arrived:  # of another pass
            self.finish()
        if not self._open:
            self._open = True
            self._of_outputs = [None] * len(self._of_outputs)
            self._of_inputs = [None] * len(self._parts)
            self._of_inside = {}
            self._arrived = set()
            self._fired = 0
            _unfinished[id(self)] = self
            self._on_begin()
        if index in self._of_inside:
            gradient = _without(gradient, self._of_inside.pop(index))
        self._of_outputs[index] = gradient
        self._arrived.add(index)
        for at in self._direct.get(index, ()):
            self._add(at, gradient, self._parts[at] + len(self._direct))
        self._end_if_known()
        return gradient

    def _inputs(self, ways, inner_ways, gradients):
        self._fired += 1
        for position, at in ways:
            self._add(at, gradients[position], self._parts[at] + len(self._direct))
        for position, at in inner_ways:
            if gradients[position] is not None:
                self._of_inside[at] = _sum(self._of_inside.get(at), gradients[position],
                                           self._inside[at])
        self._end_if_known()

    def _add(self, at, gradient, parts):
        if gradient is not None:
            self._of_inputs[at] = _sum(self._of_inputs[at], gradient, parts)

    def _end_if_known(self):
        if self._fired == self._nodes and len(self._arrived) == self._outputs:
            self.finish()

    def finish(self):
        """The gradients that came are all."""
        if not self._open:
            return
        self._open = False
        _unfinished.pop(id(self), None)
        of_outputs, of_inputs = self._of_outputs, self._of_inputs
        self._of_outputs = [None] * len(of_outputs)
        self._of_inputs = ()
        self._of_inside = {}
        if self._inner:
            for at, point in self._inner.items():
                if of_inputs[at] is not None:
                    point.run(of_inputs[at])
        self._on_end(of_outputs, of_inputs, self.complete)
        for at, records in self._records:
            for record in records:
                record(of_inputs[at])


def _sum(known, gradient, parts):
    """A gradient of several parts with one more of them."""
    if known is None and parts == 1:
        return gradient
    with runtime.own_work(), torch.no_grad():
        # A copy: what autograd does with its own must not depend on who looks at it.
        return gradient.clone() if known is None else known + gradient


def _without(gradient, inside):
    """The gradient of a result without what other results of the same call sent to it; None where
    there is nothing else."""
    if gradient is None or gradient is inside:
        return None
    with runtime.own_work(), torch.no_grad():
        # While a CUDA graph is captured nothing can be asked of values.
        asked = not (gradient.is_cuda and torch.cuda.is_current_stream_capturing())
        if asked and torch.equal(gradient, inside):
            return None
        return gradient - inside


def _first_places(tensors):
    """Where each of the tensors stands first."""
    found = {}
    for index, tensor in enumerate(tensors):
        found.setdefault(id(tensor), index)
    return list(found.values())


def accumulators(leaves):
    """The nodes that add to the gradients of leaves, None where none can be had.

    Nodes are numbered per thread, and where several threads ran the forward pass the numbers decide
    in which order gradients are summed. So what has to be computed here is computed by a thread of
    its own."""
    found = [None] * len(leaves)

    def find():
        _native.inside(True)
        with torch.enable_grad():
            for index, leaf in enumerate(leaves):
                with contextlib.suppress(Exception):
                    found[index] = torch.Tensor.view_as(leaf, leaf).grad_fn.next_functions[0][0]

    thread = threading.Thread(target=find, daemon=True)
    thread.start()
    thread.join()
    return found
