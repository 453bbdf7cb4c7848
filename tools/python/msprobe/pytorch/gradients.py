"""Gradients of a call as the capture records them."""
import weakref

import torch

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.gradients import RecordedEnds
from msprobe.pytorch import graph


class OwnGradients:
    """The gradients that one call of a module sends to the module's parameters: whether what arrives
    at one of them is that, and nothing else. Another use of the parameter, a penalty, a hook or an
    earlier backward pass makes another tensor of it."""

    __slots__ = ("names", "_module", "_sent", "_differentiated")

    def __init__(self, module, names):
        self.names = names
        self._module = weakref.ref(module)
        self._sent = {}
        self._differentiated = False

    def leaves(self):
        module = self._module()
        return [module._parameters[name] for name in self.names] if module is not None else []

    def begin(self):
        """A backward pass reaches the call. What it makes with create_graph leads back into the
        nodes of the call."""
        self._differentiated = self._differentiated or torch.is_grad_enabled()
        self._sent.clear()

    def sent(self, index, gradient):
        name = self.names[index]
        if gradient is not None:
            self._sent[name] = None if name in self._sent else _identity(gradient)

    def is_all(self, name, parameter, gradient):
        """Hooks that work in place may leave no trace: only ours is there."""
        known = self._sent.get(name)
        if (self._differentiated or known is None or known != _identity(gradient) or parameter is None
                or len(parameter._backward_hooks or ()) != 1):
            return False
        with runtime.own_work(), torch.no_grad():
            return parameter.grad is None or not parameter.grad.any()


def _identity(gradient):
    try:
        return (gradient.data_ptr() or None) and (gradient.data_ptr(), gradient._version)
    except Exception:  # of a layout that has no storage
        return None


class CallGradients(RecordedEnds):
    """Of several arguments those that nothing reached have gradients of zeros, as PyTorch's own module hooks have."""

    __slots__ = ("_forms", "_own")

    reader = graph.Reader

    def __init__(self, recorded, on_hidden, nested=True, own=None):
        super().__init__(recorded, on_hidden, nested)
        self._own = own
        self._forms = ()

    def before(self, args, kwargs):
        tensors = []
        graph.collect(args, tensors)
        graph.collect(kwargs, tensors)
        if len(tensors) > 1:
            self._forms = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]
        self._call.see_inputs(tensors)
        return args, kwargs

    def after(self, output):
        tensors = []
        graph.collect(output, tensors)
        self._outputs(tensors, self._own)
        return output

    def end(self, of_outputs, of_inputs, complete):
        if not complete:
            of_inputs = [None] * len(of_inputs)
        elif self._forms and any(gradient is None for gradient in of_inputs):
            of_inputs = [_zeros(*form) if gradient is None else gradient
                         for gradient, form in zip(of_inputs, self._forms)]
        self._recorded.end(tuple(of_outputs), tuple(of_inputs))


def _zeros(shape, dtype, device):
    before = _native.inside(True)
    try:
        return torch.zeros(shape, dtype=dtype, device=device)
    finally:
        _native.inside(before)
