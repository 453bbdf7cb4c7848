"""Gradients at both ends of a call, observed at the nodes of the autograd graph of any framework.

Nothing is put in their way: arguments and results stay the objects they are, and no node is added.
When a call ends, the graph is walked from its results back to the edges that lead to its arguments.
The nodes with such an edge are hooked: what they send over it, summed, is the gradient of the
argument within this call. The gradient of a result is what its node is given.

Autograd cannot tell some things apart, and then neither can this:

- a tensor given at several places has its gradient at the first of them, zero at the others;
- a result that the call did not compute (its argument, or the result of a call inside it) shows the
  gradient of that tensor in all its uses; of an argument that is returned beside computed results,
  what the call itself sent to it is taken away, and what nothing observed sends comes too late where
  the call's other arguments were made later;
- a view whose base was overwritten during the call has no gradient.

Where one result of a call was computed from another one, what flows between them inside the call is
taken away from the gradient of the latter: exactly where nothing else uses it, else by subtraction.
"""
import threading
import weakref

from msprobe._intercept.runtime import guarded

# Nodes of one call that are looked at. One node costs about half a microsecond.
MOST_NODES = 50000
MAX_DEPTH = 50
_END = -1
_NOTHING = {}  # shared, never filled


class _Thread(threading.local):
    """What the forward pass of one thread is in."""

    def __init__(self):
        self.calls = []  # outermost first
        self.boundaries = {}  # id of a tensor: the last boundary of a call that it crossed


_thread = _Thread()
_on_leaves = []  # (node of a leaf, handle of our hook): they outlive the graph
_unfinished = {}  # id: the calls whose gradients began to come


def settle():
    """Calls whose gradients began to come get no more: those that came are recorded."""
    for call in list(_unfinished.values()):
        call.finish()


def let_go():
    """Takes away what would stay at leaves after their graph is gone."""
    settle()
    leaves, _on_leaves[:] = list(_on_leaves), []
    for _, handle in leaves:
        handle.remove()
    _thread.boundaries.clear()


def collect(value, found, tensor_types, wanted, depth=0):
    """Appends the tensors in `value` for which wanted(tensor) is true, in order."""
    if isinstance(value, tensor_types):
        if wanted(value):
            found.append(value)
    elif depth < MAX_DEPTH:
        if isinstance(value, (list, tuple)):
            for item in value:
                collect(item, found, tensor_types, wanted, depth + 1)
        elif isinstance(value, dict):
            for item in value.values():
                collect(item, found, tensor_types, wanted, depth + 1)


class RecordedEnds:
    """Both ends of one call as the capture records them: recorded.begin(), then recorded.end(of_outputs, of_inputs). A framework's subclass
    says in before(args, kwargs) and after(output) which tensors have a place there, and in end(...) what stands at those without a gradient.
    `on_hidden` is called when a gradient cannot be seen."""

    __slots__ = ("_recorded", "_on_hidden", "_call")

    def __init__(self, recorded, on_hidden, call):
        self._recorded = recorded
        self._on_hidden = on_hidden
        self._call = call

    def _outputs(self, tensors, own=None):
        """The call has ended well."""
        call, self._call = self._call, None  # it holds this object as long as its graph lives
        on_hidden, self._on_hidden = self._on_hidden, None
        call.see_outputs(tensors, own)
        if not call.complete:
            on_hidden()

    def abandon(self):
        call, self._call = self._call, None
        call.leave()

    def begin(self):
        """In the backward pass."""
        self._recorded.begin()


def attach_unchanged(tensor, record):
    """For a function that returned its argument as it was: record(gradient) is called when the
    gradient passes the boundary that the tensor crossed last. False where it crossed none, or was
    computed since: then its node belongs to the function."""
    boundary = _boundary_of(tensor)
    if boundary is None:
        return False
    boundary.attach(record)
    return True


def _boundary_of(tensor):
    found = _thread.boundaries.get(id(tensor))
    if found is None or found.tensor() is not tensor or found.version != tensor._version:
        return None
    return found


# Every call makes some of the objects below, and they live until the backward pass: they are as few and
# as small as possible, because Python's collector visits all of them again and again.

class _Reference(weakref.ref):
    """To a tensor; `boundaries` of its thread forget it when it dies."""

    __slots__ = ("key", "boundaries")


def _forget(reference):
    known = reference.boundaries.get(reference.key)
    if known is not None and known.tensor is reference:
        del reference.boundaries[reference.key]


class _Boundary:
    """Where a tensor goes into a call or comes out of it."""

    __slots__ = ("tensor", "version", "call", "index", "point", "__weakref__")

    def __init__(self, tensor, call, index, point=None):
        self.tensor = _Reference(tensor, _forget)
        self.tensor.key = id(tensor)
        self.tensor.boundaries = _thread.boundaries
        self.version = tensor._version
        self.call = call
        self.index = index
        self.point = point  # of a result; None: of an argument

    def attach(self, record):
        """record(gradient) sees the gradient after the call did."""
        self.call.attach(self.index, record, of_input=self.point is None)


class _Point:
    """The boundaries that one tensor crossed without being computed anew, in the order of the
    forward pass. Gradients pass them in the opposite order."""

    __slots__ = ("number", "steps", "around", "index", "sent", "__weakref__")

    def __init__(self, number, around=None, index=None):
        self.number = number
        self.steps = []  # (call, index of its result, or _END)
        self.around = weakref.ref(around) if around else None  # the tensor is its argument
        self.index = index
        self.sent = None  # in this pass, by calls that ended before the gradient is known

    @guarded
    def __call__(self, gradients):
        self.run(gradients[self.number])

    def run(self, gradient):
        self.sent = None
        shares = []
        share = gradient
        for call, index in self.steps:
            shares.append(share)
            if index != _END and share is not None:
                share = call.passed_on(index, share)
        for (call, index), share in zip(reversed(self.steps), reversed(shares)):
            if index == _END:
                call.finish()
            else:
                call.see_gradient(index, share, gradient)

    def known(self):
        """What is known of the gradient while it is not complete."""
        around = self.around and self.around()
        return around.sum_of(around.passed_through(self.index), self.sent) if around else self.sent


class _NodeHook:
    """At a node of a call that sends gradients to its arguments (`ways`), or to one of its results
    from another one (`inner_ways`): (place among what the node sends, place in the call)."""

    __slots__ = ("call", "ways", "inner_ways")

    def __init__(self, call, ways, inner_ways):
        self.call = call
        self.ways = ways
        self.inner_ways = inner_ways

    @guarded
    def __call__(self, gradients, _):
        self.call.see_node(self.ways, self.inner_ways, gradients)


class _LateHook:
    """At the node of a result, behind all that the script put in front of it."""

    __slots__ = ("_call", "_index", "_number")

    def __init__(self, call, index, number):
        self._call = call
        self._index = index
        self._number = number

    @guarded
    def __call__(self, _, gradients):
        self._call.see_changed(self._index, gradients[self._number])


class _LeafHook:
    """At a node of a call that sends gradients to leaves which are not its arguments: its module's
    parameters."""

    __slots__ = ("_own", "_ways")

    def __init__(self, own, ways):
        self._own = own
        self._ways = ways

    @guarded
    def __call__(self, gradients, _):
        for position, index in self._ways:
            self._own.sent(index, gradients[position])


class CallGradients:
    """One call, and who listens: a framework's subclass says how its graph is read. `listener.begin()` runs when the first gradient of what came out is
    there, before anything that the call computed gets one; `listener.end(of_outputs, of_inputs,
    complete)` when those of what went in are known, lists with None where no gradient came. Both may
    run again: every backward pass does. `complete`: whether all gradients can be seen; it is known
    once the call has ended. What is called must not hold this object, so that it goes with the
    graph."""

    __slots__ = ("complete", "records_of_inputs", "records_of_outputs", "_listener", "_nested",
                 "_since", "_edges", "_tensors", "_versions", "_saved", "_places",
                 "_inside", "_inner", "_direct", "_nodes", "_results", "_outputs", "_parts",
                 "_open", "_of_outputs", "_of_inputs", "_of_inside", "_fired", "_arrived",
                 "_through", "_late", "__weakref__")

    def __init__(self, listener, nested=True):
        self.complete = True
        self.records_of_inputs = self.records_of_outputs = _NOTHING
        self._listener = listener
        self._nested = nested  # calls inside this one are observed as well
        self._open = False
        self._inner = None
        self._nodes = self._results = self._outputs = 0
        self._direct = self._inside = self._through = self._late = _NOTHING
        self._edges = self._tensors = self._versions = self._saved = self._places = ()

    def attach(self, index, record, of_input):
        """record(gradient) sees that of one input or result after the listener did."""
        if of_input:
            records = self.records_of_inputs = self.records_of_inputs or {}
        else:
            records = self.records_of_outputs = self.records_of_outputs or {}
        records.setdefault(index, []).append(record)

    # ---- what a framework says ----

    # Whether hooks of a script that are put on a result later see its gradient behind ours.
    has_late_hooks = False

    @staticmethod
    def edge(tensor):
        """(node that made it, which of the node's results it is). Nodes are compared with == and
        kept in sets. The node is None where a leaf has none."""
        raise NotImplementedError

    @staticmethod
    def is_leaf(node):
        return node is None

    @staticmethod
    def watch_leaf(tensor, point):
        """point((gradient,)) is called with the gradient of a leaf: (what is to be kept, the
        handle to remove), or None where that cannot be had."""
        raise NotImplementedError

    @staticmethod
    def sequence_number():
        """The number that the next node of this thread gets: what is below was made before. -1 where
        it is unknown."""
        return -1

    @staticmethod
    def walk(results, targets, since):
        """As _native.graph_walk, with at most MOST_NODES."""
        raise NotImplementedError

    @staticmethod
    def is_view(tensor):
        """Whether writing to another tensor may give it another node."""
        return False

    @staticmethod
    def plus(known, gradient):
        """A new tensor: their sum, or a copy of `gradient` where `known` is None. A copy, because
        what autograd does with its own must not depend on who looks at it."""
        raise NotImplementedError

    @staticmethod
    def minus(gradient, inside):
        """A new tensor, or None where both are equal."""
        raise NotImplementedError

    # ---- in the forward pass ----

    def see_inputs(self, tensors):
        """The call begins. `tensors`: what it is given, as far as it requires a gradient."""
        self._tensors = tensors
        self._since = self.sequence_number()
        edge = self.edge
        self._edges = [(*edge(tensor), tensor) for tensor in tensors]
        self._versions = [tensor._version for tensor in tensors]
        self._places = _first_places(tensors)
        if not self._nested:
            return
        boundaries = _thread.boundaries
        saved = self._saved = []
        for index in self._places:
            tensor = tensors[index]
            saved.append((id(tensor), boundaries.get(id(tensor))))
            boundaries[id(tensor)] = _Boundary(tensor, self, index)
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

    def see_outputs(self, outputs, own=None):
        """The call has ended well. `outputs`: what it gives, as far as it requires a gradient.
        `own.leaves()`: leaves beside its arguments; own.sent(index, gradient) receives what nodes of
        the call send to them."""
        self.leave()
        tensors, edges = self._tensors, self._edges
        try:
            if outputs:
                self._observe(tensors, edges, outputs, own)
        finally:
            # No node is held by what is held by nodes.
            self._tensors = self._edges = self._versions = self._places = ()

    def _observe(self, tensors, edges, outputs, own):
        results = _first_places(outputs)
        self._direct = self._find_unchanged(edges, outputs, results)
        if self.has_late_hooks:
            self._watch_late_hooks(outputs, results)
        self._nodes = self._hook_nodes(edges, outputs, [index for index in results
                                                        if index not in self._direct], own)
        if self._overwritten(tensors):
            self._complete_or_not(tensors)
        self._results, self._outputs = len(results), len(outputs)
        returned = {at for places in self._direct.values() for at in places}
        if returned and self._nodes:
            self._through, self._late = {}, set()
        for index in results:
            self._watch_output(index, outputs[index])
        # Something that is not used leaves nodes that never run: the call ends when the gradient
        # arrives at what made its arguments.
        if len(results) > 1 and self._nodes:
            for index in self._places:
                if index not in returned:
                    self._end_at(tensors[index], edges[index][:2])

    def _watch_late_hooks(self, outputs, results):
        for index in results:
            node, number = self.edge(outputs[index])
            if index not in self._direct and not self.is_leaf(node):
                node.register_hook(_LateHook(self, index, number))

    def _find_unchanged(self, edges, outputs, results):
        """{place of a result: the places of the arguments that it is}"""
        found = None
        for index in results:
            tensor = outputs[index]
            node, number = self.edge(tensor)
            same = [at for at in self._places if edges[at][0] == node
                    and (edges[at][1] == number if node is not None else tensor is edges[at][2])]
            if same:
                found = found or {}
                found[index] = same
        return found or _NOTHING

    def _hook_nodes(self, edges, outputs, computed, own):
        """Hooks the nodes of the call that send a gradient to its arguments, or to one of its
        results from another one; how many there are. `computed`: the places of the results that
        the call made."""
        self._parts = [0] * len(edges)
        ends = {edge[0] for edge in edges}
        made = [(at, (*self.edge(outputs[at]), outputs[at])) for at in computed]
        made = [(at, edge) for at, edge in made if edge[0] is not None and edge[0] not in ends]
        leaves = own.leaves() if own is not None else ()
        only_leaves = not edges and len(made) == 1
        if not made or only_leaves and not leaves:
            return 0
        computed = [at for at, _ in made]
        found, complete = self.walk([edge for _, edge in made],
                                    [edges[at] for at in self._places]
                                    + [(None, 0, leaf) for leaf in leaves], self._since)
        if not complete:
            self.complete = only_leaves
            return 0
        repeated = len(self._places) != len(edges)
        hooked = 0
        for node, ways, inner_ways in found:
            if leaves:
                ways = self._hook_leaves(own, node, ways)
                if not ways and not inner_ways:
                    continue
            if repeated:
                ways = [(position, self._places[target]) for position, target in ways]
            for _, at in ways:
                self._parts[at] += 1
            if inner_ways:
                inner_ways = [(position, computed[result]) for position, result in inner_ways]
                self._inside = dict(self._inside)
                for _, at in inner_ways:
                    self._inside[at] = self._inside.get(at, 0) + 1
            node.register_hook(_NodeHook(self, ways, inner_ways))
            hooked += 1
        return hooked

    def _hook_leaves(self, own, node, ways):
        """The ways that lead to arguments."""
        arguments = len(self._places)
        to_leaves = [(position, target - arguments) for position, target in ways
                     if target >= arguments]
        if to_leaves:
            node.register_hook(_LeafHook(own, to_leaves))
        return [way for way in ways if way[1] < arguments]

    def _overwritten(self, tensors):
        return [tensor._version for tensor in tensors] != self._versions

    def _complete_or_not(self, tensors):
        """A view whose base was overwritten has another node since."""
        unchanged = {at for places in self._direct.values() for at in places}
        if any(self.is_view(tensors[at]) and not self._parts[at] and at not in unchanged
               for at in self._places):
            self.complete = False

    def _watch_output(self, index, tensor):
        point = self._point_at(tensor, self.edge(tensor), _boundary_of(tensor))
        point.steps.append((self, index))
        if index in self._direct and self._nodes:
            self._through[index] = weakref.ref(point)
        if self._nested:
            _thread.boundaries[id(tensor)] = _Boundary(tensor, self, index, point)

    def _end_at(self, tensor, edge):
        point = self._point_at(tensor, edge, _boundary_of(tensor))
        point.steps.append((self, _END))

    def _point_at(self, tensor, edge, known):
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
                point = inner[known.index] = _Point(0, known.call, known.index)
            return point
        node, number = edge
        point = _Point(number)
        if not self.is_leaf(node):
            node.register_prehook(point)
        else:
            watched = self.watch_leaf(tensor, point)
            if watched is not None:
                _on_leaves.append(watched)
        return point

    # ---- in the backward pass ----

    def passed_on(self, index, gradient):
        """Of the gradient of a result that is an argument: what calls behind this one sent to it."""
        if not self._open or index not in self._through:
            return gradient
        return self._without(gradient, self._of_inputs[self._direct[index][0]])

    def passed_through(self, at):
        """The same while it is not complete, by the place of the argument; None: nothing is known."""
        for index, point in self._through.items():
            if at in self._direct[index]:
                point = point()
                return point.known() if point is not None else None
        return None

    def see_gradient(self, index, gradient, whole):
        """What arrives at a result. `whole`: with what was taken away for calls behind this one."""
        if index in self._late and not self._open:  # it has been recorded
            self._late.discard(index)
        elif gradient is not None or whole is None or self._open:
            self._take(index, gradient)
        for record in self.records_of_outputs.get(index, ()):
            record(whole)

    def see_changed(self, index, gradient):
        """What the node of a result was given in the end."""
        if self._open and index in self._arrived and index not in self._inside:
            self._of_outputs[index] = gradient

    def _take(self, index, gradient):
        if self._open and index in self._arrived:  # of another pass
            self.finish()
        if not self._open:
            self._open = True
            self._of_outputs = [None] * self._outputs
            self._of_inputs = [None] * len(self._parts)
            self._of_inside = {}
            self._arrived = set()
            self._fired = 0
            _unfinished[id(self)] = self
            self._listener.begin()
        if index in self._of_inside:
            gradient = self._without(gradient, self._of_inside.pop(index))
        self._arrived.add(index)
        if index in self._through:
            # Whatever leads to the argument has been, and most of it was this call's.
            self._of_outputs[index] = self.passed_on(index, gradient)
            if gradient is not None:
                for at in self._direct[index]:
                    self._of_inputs[at] = gradient
            self.finish()
            return
        self._of_outputs[index] = gradient
        for at in self._direct.get(index, ()):
            self._add(at, gradient, self._parts[at] + len(self._direct))
        self._end_if_known()

    def see_node(self, ways, inner_ways, gradients):
        """What a node of the call sends."""
        if not self._open:
            return
        self._fired += 1
        for position, at in ways:
            self._add(at, gradients[position], self._parts[at] + len(self._direct))
        for position, at in inner_ways:
            if gradients[position] is not None:
                self._of_inside[at] = self._sum(self._of_inside.get(at), gradients[position],
                                                self._inside[at])
        self._end_if_known()

    def _add(self, at, gradient, parts):
        if gradient is not None:
            self._of_inputs[at] = self._sum(self._of_inputs[at], gradient, parts)

    def _sum(self, known, gradient, parts):
        """A gradient of several parts with one more of them."""
        return gradient if known is None and parts == 1 else self.plus(known, gradient)

    def sum_of(self, known, more):
        """None: nothing."""
        if known is None or more is None:
            return known if more is None else more
        return self._sum(known, more, 2)

    def _without(self, gradient, inside):
        """The gradient of a result without what other results of the same call sent to it; None
        where there is nothing else."""
        if gradient is None or inside is None:
            return gradient
        return None if gradient is inside else self.minus(gradient, inside)

    def _end_if_known(self):
        if self._fired == self._nodes and len(self._arrived) == self._results:
            self.finish()

    def finish(self):
        """The gradients that came are all."""
        if not self._open:
            return
        self._open = False
        _unfinished.pop(id(self), None)
        self._pass_through()
        of_outputs, of_inputs = self._of_outputs, self._of_inputs
        self._of_outputs = self._of_inputs = ()
        self._of_inside = self._arrived = _NOTHING
        if self._inner:
            for at, point in self._inner.items():
                if of_inputs[at] is not None:
                    point.run(of_inputs[at])
        self._listener.end(of_outputs, of_inputs, self.complete)
        for at, records in self.records_of_inputs.items():
            for record in records:
                record(of_inputs[at])

    def _pass_through(self):
        """Arguments that are results, too, and get their gradient after the call has ended."""
        for index, point in self._through.items():
            point = point()
            if index not in self._arrived and point is not None:
                at = self._direct[index][0]
                sent, behind = self._of_inputs[at], point.known()
                self._late.add(index)
                self._of_outputs[index] = behind
                self._of_inputs[at] = self.sum_of(behind, sent)
                point.sent = self.sum_of(point.sent, sent)


def _first_places(tensors):
    """Where each of the tensors stands first."""
    found = {}
    for index, tensor in enumerate(tensors):
        found.setdefault(id(tensor), index)
    return list(found.values())
