"""Gradients of a call as the capture and the monitor record them."""
import mindspore

from msprobe._intercept import gradients
from msprobe._intercept.runtime import guarded
from msprobe.mindspore import graph, values

HIDDEN = ("%s, and perhaps others: the gradients of its inputs cannot be told apart in the graph of its "
          "call: they are null")


def available():
    """Whether this MindSpore tells gradients of tensors."""
    return hasattr(mindspore.Tensor, "register_hook")


def single(gradient):
    """Some versions give a gradient as a tuple of one."""
    return gradient[0] if isinstance(gradient, tuple) and len(gradient) == 1 else gradient


def watch(tensor, on_gradient):
    """Calls on_gradient(gradient); MindSpore wants the gradient back."""

    def hook(gradient):
        on_gradient(single(gradient))
        return gradient

    return tensor.register_hook(hook)


def collect(value, found, depth=0):
    """Appends the tensors in `value`, in order."""
    if isinstance(value, values.tensor_types()):
        found.append(value)
    elif depth < gradients.MAX_DEPTH and isinstance(value, (list, tuple)):
        for item in value:
            collect(item, found, depth + 1)
    elif depth < gradients.MAX_DEPTH and isinstance(value, dict):
        for item in value.values():
            collect(item, found, depth + 1)


def _wants_gradient(tensor):
    return tensor._requires_grad and values.is_floating(tensor)


class CallGradients:
    """Both ends of one call: recorded.begin(), then recorded.end(of_outputs, of_inputs). Every tensor
    that goes in has a place, also one that gets no gradient; of the results those of a floating
    type."""

    __slots__ = ("_recorded", "_on_hidden", "_inputs", "_input_places", "_outputs",
                 "_output_places", "_call")

    def __init__(self, recorded, on_hidden, nested=True):
        self._recorded = recorded
        self._on_hidden = on_hidden  # called when a gradient cannot be seen
        self._call = graph.CallGradients(self, nested)

    def before(self, args, kwargs):
        tensors = []
        collect(args, tensors)
        collect(kwargs, tensors)
        self._inputs = len(tensors)
        self._input_places = [place for place, tensor in enumerate(tensors)
                              if _wants_gradient(tensor)]
        self._call.see_inputs([tensors[place] for place in self._input_places])
        return args, kwargs

    def after(self, output):
        tensors = []
        collect(output, tensors)
        tensors = [tensor for tensor in tensors if values.is_floating(tensor)]
        self._outputs = len(tensors)
        self._output_places = [place for place, tensor in enumerate(tensors)
                               if tensor._requires_grad and tensor._grad_node is not None]
        call, self._call = self._call, None  # it holds this object as long as its graph lives
        on_hidden, self._on_hidden = self._on_hidden, None
        call.see_outputs([tensors[place] for place in self._output_places])
        if not call.complete:
            on_hidden()
        return output

    def abandon(self):
        call, self._call = self._call, None
        call.leave()

    # ---- in the backward pass ----

    def begin(self):
        self._recorded.begin()

    def end(self, of_outputs, of_inputs, complete):
        self._recorded.end(_spread(of_outputs, self._output_places, self._outputs),
                           _spread(of_inputs if complete else (), self._input_places,
                                   self._inputs))


def _spread(found, places, count):
    spread = [None] * count
    for place, gradient in zip(places, found):
        spread[place] = gradient
    return tuple(spread)


class ResultGradients:
    """In place of CallGradients where MindSpore (before 2.10) does not show its graph: gradients of
    the results alone. To see those of the arguments would take a node of ours in the graph, which
    changes the order of sums."""

    __slots__ = ("_recorded", "_inputs", "_of_outputs", "_left")

    def __init__(self, recorded, on_hidden, nested=True):
        self._recorded = recorded
        on_hidden()

    def before(self, args, kwargs):
        tensors = []
        collect(args, tensors)
        collect(kwargs, tensors)
        self._inputs = len(tensors)
        return args, kwargs

    def after(self, output):
        tensors = []
        collect(output, tensors)
        tensors = [tensor for tensor in tensors if values.is_floating(tensor)]
        self._of_outputs = [None] * len(tensors)
        self._left = len(tensors)
        for place, tensor in enumerate(tensors):
            watch(tensor, lambda gradient, at=place: self._arrived(at, gradient))
        return output

    def abandon(self):
        pass

    @guarded
    def _arrived(self, place, gradient):
        if self._left == len(self._of_outputs):
            self._recorded.begin()
        self._of_outputs[place] = gradient
        self._left -= 1
        if self._left == 0:
            self._left = len(self._of_outputs)
            self._recorded.end(tuple(self._of_outputs), (None,) * self._inputs)


def of_call(recorded, on_hidden, nested=True):
    """What watches the gradients at both ends of one call."""
    kind = CallGradients if graph.is_readable() else ResultGradients
    return kind(recorded, on_hidden, nested)
