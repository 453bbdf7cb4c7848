"""Gradients at both ends of a call, observed at the nodes of the autograd graph of any framework.

The extension does it (native/call_gradients.h): `_native.CallGradients(reader, listener, nested)` is one call. Here is what a framework
says of its graph, and what is recorded.
"""
from msprobe import _native

# Nodes of one call that are looked at.
MOST_NODES = 50000
MAX_DEPTH = 50

# Calls whose gradients began to come get no more: those that came are recorded.
settle = _native.settle_gradients
# The same, and takes away what would stay at leaves after their graph is gone.
let_go = _native.let_go_of_gradients
# attach_unchanged(tensor, record): for a function that returned its argument as it was: record(gradient) is called when the gradient passes
# the boundary that the tensor crossed last. False where it crossed none, or was computed since: then its node belongs to the function.
attach_unchanged = _native.attach_unchanged


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


class GraphReader:
    """How a framework's graph is read. The class itself is given to _native.CallGradients, which looks its functions up once. What is None
    the extension does, as PyTorch's graph is read."""

    # Whether hooks of a script that are put on a result later see its gradient behind ours.
    has_late_hooks = False

    # edge(tensor): the node that made it, or None for a leaf without one, and which of the node's results it is. Such nodes are compared
    # with ==. Default: grad_fn and output_nr, compared by identity.
    edge = None
    # is_leaf(node). Default: only None is one.
    is_leaf = None
    # sequence_number(): the number that the next node of this thread gets: what is below was made before; -1 where it is unknown.
    sequence_number = None
    # walk(results, targets, since): both lists of (node or None, output number, tensor), from what came out of a call back to what went in.
    # ([(node, [(position, target), ...], [(position, result), ...]), ...], whether MOST_NODES were enough): the nodes of the call from which
    # a gradient flows over the edge of a target, or over that of a result. `position` is the place among the gradients that the node sends.
    walk = None
    # is_view(tensor): whether writing to another tensor may give it another node. Default: it may not.
    is_view = None

    @staticmethod
    def watch_leaf(tensor, hook):
        """hook((gradient,)) is called with the gradient of a leaf: (what is to be kept, the handle to remove), or None where that cannot be
        had."""
        raise NotImplementedError

    @staticmethod
    def plus(known, gradient):
        """A new tensor: their sum, or a copy of `gradient` where `known` is None. A copy, because what autograd does with its own must not
        depend on who looks at it."""
        raise NotImplementedError

    @staticmethod
    def minus(gradient, inside):
        """A new tensor, or None where both are equal."""
        raise NotImplementedError


class RecordedEnds:
    """Both ends of one call as the capture records them: recorded.begin(), then recorded.end(of_outputs, of_inputs). A framework's subclass
    says in before(args, kwargs) and after(output) which tensors have a place there, and in end(...) what stands at those without a gradient.
    `on_hidden` is called when a gradient cannot be seen."""

    __slots__ = ("_recorded", "_on_hidden", "_call")

    reader = None  # of the framework's graph

    def __init__(self, recorded, on_hidden, nested=True):
        self._recorded = recorded
        self._on_hidden = on_hidden
        self._call = _native.CallGradients(self.reader, self, nested)

    def _outputs(self, tensors, own=None):
        """The call has ended well."""
        call, self._call = self._call, None  # it holds this object as long as its graph lives
        on_hidden, self._on_hidden = self._on_hidden, None
        call.see_outputs(tensors, own)
        if not call.complete:
            on_hidden()

    def abandon(self):
        call, self._call = self._call, None
        if call is not None:
            call.leave()

    def begin(self):
        """In the backward pass."""
        self._recorded.begin()
