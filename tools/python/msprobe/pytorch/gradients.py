"""Gradients of a call as the capture records them."""
import torch

from msprobe import _native
from msprobe._intercept import gradients


class CallGradients:
    """Both ends of one call: on_begin(), then on_end(of_outputs, of_inputs). Of several arguments
    those that nothing reached have gradients of zeros, as PyTorch's own module hooks have."""

    def __init__(self, on_begin, on_end, on_hidden, nested=True):
        self._on_end = on_end
        self._on_hidden = on_hidden  # called when a gradient cannot be seen
        self._forms = ()
        self._call = gradients.CallGradients(on_begin, self._end, nested)

    def before(self, args, kwargs):
        tensors = []
        gradients.collect(args, tensors)
        gradients.collect(kwargs, tensors)
        if len(tensors) > 1:
            self._forms = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]
        self._call.see_inputs(tensors)
        return args, kwargs

    def after(self, output):
        tensors = []
        gradients.collect(output, tensors)
        call, self._call = self._call, None  # it holds this object as long as its graph lives
        call.see_outputs(tensors)
        if not call.complete:
            self._on_hidden()
        return output

    def abandon(self):
        call, self._call = self._call, None
        call.leave()

    def _end(self, of_outputs, of_inputs, complete):
        if not complete:
            of_inputs = [None] * len(of_inputs)
        elif self._forms and any(gradient is None for gradient in of_inputs):
            of_inputs = [_zeros(*form) if gradient is None else gradient
                         for gradient, form in zip(of_inputs, self._forms)]
        self._on_end(tuple(of_outputs), tuple(of_inputs))


def _zeros(shape, dtype, device):
    before = _native.inside(True)
    try:
        return torch.zeros(shape, dtype=dtype, device=device)
    finally:
        _native.inside(before)
