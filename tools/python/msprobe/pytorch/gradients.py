"""Gradients of a call as the capture records them."""
import torch

from msprobe import _native
from msprobe.pytorch import graph


class CallGradients:
    """Both ends of one call: recorded.begin(), then recorded.end(of_outputs, of_inputs). Of several
    arguments those that nothing reached have gradients of zeros, as PyTorch's own module hooks
    have."""

    __slots__ = ("_recorded", "_on_hidden", "_forms", "_call")

    def __init__(self, recorded, on_hidden, nested=True):
        self._recorded = recorded
        self._on_hidden = on_hidden  # called when a gradient cannot be seen
        self._forms = ()
        self._call = graph.CallGradients(self, nested)

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
        call, self._call = self._call, None  # it holds this object as long as its graph lives
        on_hidden, self._on_hidden = self._on_hidden, None
        call.see_outputs(tensors)
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
