"""Gradients at the two ends of a call: of what went in, and of what came out.

Tensors that went in pass through a node of ours, so that its gradients are those of this call alone
and not of every use of the tensor; so do tensors that came out. Values, storage and version
counters stay what they are; nothing is saved for backward.
"""
import dataclasses

import torch

from msprobe import _native
from msprobe._session import guarded

_MAX_DEPTH = 50
_view_as = torch.Tensor.view_as


class _PassInputs(torch.autograd.Function):
    """Identity over several inputs: its backward runs once, when all gradients are there. Detached
    aliases, not views: PyTorch forbids changes in place of views that such a function returns."""

    @staticmethod
    def forward(ctx, *tensors):
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class _PassOutputs(torch.autograd.Function):
    """Identity over results, in the same way: modules after this one may work in place."""

    @staticmethod
    def forward(ctx, *tensors):
        ctx.set_materialize_grads(False)
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


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


def replace(value, replacements, depth=0):
    """`value` with the collected tensors replaced, in the same order; containers are made anew."""
    if isinstance(value, torch.Tensor):
        return next(replacements) if value.requires_grad else value
    if depth >= _MAX_DEPTH:
        return value
    if isinstance(value, (list, tuple)):
        items = [replace(item, replacements, depth + 1) for item in value]
        if all(new is old for new, old in zip(items, value)):
            return value
        if isinstance(value, list):
            return _same_list(value, items)
        if hasattr(value, "_fields"):
            return type(value)(*items)
        return _same_tuple(value, items)
    if isinstance(value, dict):
        items = {key: replace(item, replacements, depth + 1) for key, item in value.items()}
        if all(items[key] is value[key] for key in items):
            return value
        return _same_dict(value, items)
    return value


def _same_list(value, items):
    return items if type(value) is list else type(value)(items)


def _same_tuple(value, items):
    # torch.return_types take one sequence, as tuple does.
    return tuple(items) if type(value) is tuple else type(value)(items)


def _same_dict(value, items):
    if type(value) is dict:
        return items
    if dataclasses.is_dataclass(value):
        return type(value)(**items)
    copied = value.copy()
    copied.update(items)
    return copied


def _inside(function, *args):
    before = _native.inside(True)
    try:
        return function(*args)
    finally:
        _native.inside(before)


class CallGradients:
    """Both ends of one call. `on_begin()` runs when gradients reach what came out, `on_end(into,
    out_of)` when those of what went in are known, or at once when nothing there needs any.
    `overwritten`: the call changed what went in, so that its next one is watched `in_place`."""

    def __init__(self, on_begin, on_end):
        self.overwritten = False
        self._on_begin = on_begin
        self._on_end = on_end
        self._versions = ()
        self._of_outputs = None
        self._waiting = 0
        self._of_inputs = []

    def pass_inputs(self, args, kwargs, in_place=False):
        tensors = []
        collect(args, tensors)
        collect(kwargs, tensors)
        if not tensors:
            return args, kwargs
        if in_place:
            # The tensors are overwritten: hooks on their present values, no node in between. Inputs
            # that are not overwritten show the gradient of all their uses.
            self._waiting = len(tensors)
            self._of_inputs = [None] * len(tensors)
            for index, tensor in enumerate(tensors):
                tensor.register_hook(lambda gradient, at=index: self._one_input(at, gradient))
            return args, kwargs
        passed = _inside(self._pass, tensors)
        self._versions = [(tensor, tensor._version) for tensor in passed]
        self._waiting = 1
        passed[0].grad_fn.register_hook(self._all_inputs)
        replacements = iter(passed)
        return replace(args, replacements), replace(kwargs, replacements)

    @staticmethod
    def _pass(tensors):
        if len(tensors) == 1:
            return (_view_as(tensors[0], tensors[0]),)
        return _PassInputs.apply(*tensors)

    def pass_output(self, output):
        self.overwritten = any(tensor._version != version for tensor, version in self._versions)
        self._versions = ()
        tensors = []
        collect(output, tensors)
        if not tensors:
            return output
        passed = _inside(lambda: _PassOutputs.apply(*tensors))
        passed[0].grad_fn.register_hook(self._all_outputs)
        return replace(output, iter(passed))

    def watch_output(self, node):
        """Takes the gradients that flow into an autograd node as those of what came out."""
        node.register_hook(self._all_outputs)

    @guarded
    def _all_outputs(self, _, gradients):
        self._of_outputs = gradients
        self._on_begin()
        if self._waiting == 0:
            self._end(())

    @guarded
    def _all_inputs(self, gradients, _):
        # Not set: the gradient came past the call's results (double backward).
        if self._of_outputs is not None:
            self._end(gradients)

    @guarded
    def _one_input(self, index, gradient):
        self._of_inputs[index] = gradient
        self._waiting -= 1
        if self._waiting == 0 and self._of_outputs is not None:
            self._waiting = len(self._of_inputs)
            self._end(tuple(self._of_inputs))

    def _end(self, of_inputs):
        of_outputs, self._of_outputs = self._of_outputs, None
        self._on_end(of_outputs, of_inputs)
