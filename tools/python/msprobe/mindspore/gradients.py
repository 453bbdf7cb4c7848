"""Gradients of a call as the capture and the monitor record them."""
import mindspore

from msprobe._intercept import gradients
from msprobe._intercept.runtime import guarded
from msprobe.mindspore import graph, values

HIDDEN = ("%s, and perhaps others: the gradients of its inputs cannot be distinguished in the graph of its "
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


def _all_of(*given):
    found = []
    for value in given:
        gradients.collect(value, found, values.tensor_types(), lambda tensor: True)
    return found


def _results(output):
    """Those of a floating type."""
    found = []
    gradients.collect(output, found, values.tensor_types(), values.is_floating)
    return found


def _wants_gradient(tensor):
    return tensor._requires_grad and values.is_floating(tensor)


class CallGradients(gradients.RecordedEnds):
    """Every tensor that goes in has a place, also one that gets no gradient; of the results those of a floating type."""

    __slots__ = ("_input_count", "_input_places", "_output_count", "_output_places")

    reader = graph.Reader

    def before(self, args, kwargs):
        tensors = _all_of(args, kwargs)
        self._input_count = len(tensors)
        self._input_places = [place for place, tensor in enumerate(tensors)
                              if _wants_gradient(tensor)]
        self._call.see_inputs([tensors[place] for place in self._input_places])
        return args, kwargs

    def after(self, output):
        tensors = _results(output)
        self._output_count = len(tensors)
        self._output_places = [place for place, tensor in enumerate(tensors)
                               if tensor._requires_grad and tensor._grad_node is not None]
        self._outputs([tensors[place] for place in self._output_places])
        return output

    def end(self, of_outputs, of_inputs, complete):
        self._recorded.end(_spread(of_outputs, self._output_places, self._output_count),
                           _spread(of_inputs if complete else (), self._input_places,
                                   self._input_count))


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
        self._inputs = len(_all_of(args, kwargs))
        return args, kwargs

    def after(self, output):
        tensors = _results(output)
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
