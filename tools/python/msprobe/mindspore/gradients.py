"""Gradients at the two ends of a call.

Tensors that went in pass through an identity whose gradient is that of this call alone; a hook on
what came out tells its gradient. Which tensors get a gradient is not known beforehand: a call is
recorded when all of its inputs have theirs, or when the backward pass has left it.
Parameters stay what they are (an identity of one cannot be assigned to): their place is null here,
their gradient is in parameters_grad.
"""
import threading

import mindspore
from mindspore import ops

from msprobe import _native
from msprobe._intercept.runtime import guarded
from msprobe.mindspore import values

_MAX_DEPTH = 50


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
    """Appends the tensors in `value`, in order. Containers of types of their own are not opened:
    they could not be made anew."""
    if isinstance(value, values.tensor_types()):
        found.append(value)
    elif depth < _MAX_DEPTH and type(value) in (list, tuple):
        for item in value:
            collect(item, found, depth + 1)
    elif depth < _MAX_DEPTH and type(value) is dict:
        for item in value.values():
            collect(item, found, depth + 1)


def replace(value, replacements, depth=0):
    """`value` with the collected tensors replaced, in the same order."""
    if isinstance(value, values.tensor_types()):
        return next(replacements)
    if depth < _MAX_DEPTH and type(value) in (list, tuple):
        return type(value)(replace(item, replacements, depth + 1) for item in value)
    if depth < _MAX_DEPTH and type(value) is dict:
        return {key: replace(item, replacements, depth + 1) for key, item in value.items()}
    return value


class Backward:
    """The calls that the backward pass is in, outermost first, and those the forward is in."""

    def __init__(self):
        self.open = []
        self._forward = threading.local()

    def forward(self):
        """The modules that run in this thread, outermost first."""
        if not hasattr(self._forward, "calls"):
            self._forward.calls = []
        return self._forward.calls

    def arrive_at(self, call):
        """Something of `call` is computed: what is neither this call nor around it is over."""
        around = set()
        while call is not None:
            around.add(id(call))
            call = call.parent
        while self.open and id(self.open[-1]) not in around:
            self.open[-1].end()

    def finish(self):
        while self.open:
            self.open[-1].end()


class CallGradients:
    """Both ends of one call. `on_begin()` runs when gradients reach what came out,
    `on_end(of_outputs, of_inputs)` when the call is over."""

    def __init__(self, backward, on_begin, on_end, in_place=False):
        self._backward = backward
        self._in_place = in_place
        self._on_begin = on_begin
        self._on_end = on_end
        forward = backward.forward()
        self.parent = forward[-1] if forward else None
        self._ended = False
        self._passed = 0
        self._waiting = 0
        self._of_inputs = []
        self._of_outputs = []

    def before(self, args, kwargs):
        tensors = []
        collect(args, tensors)
        collect(kwargs, tensors)
        self._of_inputs = [None] * len(tensors)
        if self._in_place:  # an identity would be overwritten in the tensor's place
            return args, kwargs
        before = _native.inside(True)
        try:
            passed = [self._pass(index, tensor) for index, tensor in enumerate(tensors)]
        finally:
            _native.inside(before)
        if not self._passed:
            return args, kwargs
        replacements = iter(passed)
        return replace(args, replacements), replace(kwargs, replacements)

    def _pass(self, index, tensor):
        if isinstance(tensor, mindspore.Parameter) or not values.is_floating(tensor):
            return tensor

        def hook(gradient):
            self._one_input(index, single(gradient))

        passed = ops.HookBackward(hook)(tensor)
        if not isinstance(passed, type(tensor)) and not values.is_stub(tensor):
            return tensor  # a class of its own, which the call may rely on
        self._passed += 1
        return passed

    def after(self, output):
        tensors = []
        collect(output, tensors)
        tensors = [tensor for tensor in tensors if values.is_floating(tensor)]
        self._of_outputs = [None] * len(tensors)
        for index, tensor in enumerate(tensors):
            watch(tensor, lambda gradient, at=index: self._one_output(at, gradient))
        return output

    def abandon(self):
        """The call ended in an exception."""

    @guarded
    def _one_output(self, index, gradient):
        self._ended = False  # another backward pass, perhaps
        self._begin()
        self._of_outputs[index] = gradient

    def _begin(self):
        """A result may be that of the module around it as well, which is told later: it begins
        first all the same."""
        if self._ended or self in self._backward.open:
            return
        self._backward.arrive_at(self)
        if self.parent is not None:
            self.parent._begin()
        self._waiting = self._passed
        self._on_begin()
        self._backward.open.append(self)

    @guarded
    def _one_input(self, index, gradient):
        if self not in self._backward.open:
            return  # the gradient came past the call's results
        self._backward.arrive_at(self)
        self._of_inputs[index] = gradient
        self._waiting -= 1
        if self._waiting == 0:
            self.end()

    def end(self):
        self._ended = True
        self._backward.open.remove(self)
        of_outputs, of_inputs = tuple(self._of_outputs), tuple(self._of_inputs)
        self._of_outputs = [None] * len(of_outputs)
        self._of_inputs = [None] * len(of_inputs)
        self._on_end(of_outputs, of_inputs)
