"""The gradients of a call, computed twice more when they are due: once as they were, once of changed
inputs. The hook is on the result and goes with it: nothing stays on parameters."""
import contextlib

import torch

from msprobe._free_benchmark.attempts import Skipped
from msprobe._intercept.runtime import own_work
from msprobe.pytorch.free_benchmark.calls import second_run
from msprobe.pytorch.free_benchmark.perturbation import mapped


class Backward:
    def __init__(self, call, original, perturbation):
        self._call = call
        self._original = original
        self._perturbation = perturbation

    def watch(self, result, found):
        """found(gradients, changed gradients) once the gradient of the result is there. False: there
        will be none."""
        if not isinstance(result, torch.Tensor) or not result.requires_grad or self._call.writes:
            return False
        result.register_hook(lambda gradient: found(self, gradient))
        return True

    def gradients(self, gradient):
        """(those of the inputs that need any, the same of changed inputs)"""
        call = self._call
        if not any(map(_needs, call.args)):
            raise Skipped("no argument by position is a tensor that needs a gradient")
        if not call.unchanged_since():
            return None
        plain = self._of(call.args, call.kwargs, gradient.detach(), autocasts=True)
        with own_work():
            changed = self._changed(gradient.detach())
        if changed is None:
            return None
        # What was cast by hand, or brought to the CPU, is computed as it is.
        by_hand = self._perturbation._mode in ("improve_precision", "to_cpu")
        return plain, self._of(*changed, autocasts=not by_hand)

    def _changed(self, gradient):
        """(args, kwargs, gradient) as the mode wants them."""
        mode = self._perturbation._mode
        args, kwargs = self._call.args, self._call.kwargs
        if mode in ("improve_precision", "to_cpu"):
            applied = self._perturbation.applied((args, gradient), kwargs)
            if applied is None:
                return None
            (args, gradient), kwargs = applied
            needed = iter([_needs(value) for value in self._call.args])
            args = tuple(_marked(value) if need else value for value, need in zip(args, needed))
            return args, kwargs, gradient
        if mode == "no_change":
            return args, kwargs, gradient
        args = list(args)
        for position, value in enumerate(args):
            if _needs(value):
                changed = self._perturbation.of_tensor(value.detach())
                if changed is not None:
                    args[position] = _marked(changed)
                    if not self._perturbation._all:
                        break
        return tuple(args), kwargs, gradient

    def _of(self, args, kwargs, gradient, autocasts):
        with second_run(self._call.state, autocasts, gradients=True):
            leaves = []

            def leaf(value):
                if not _needs(value):
                    return mapped(value, torch.Tensor.detach)
                leaves.append(value.detach().requires_grad_())
                return leaves[-1]

            args = [leaf(value) for value in args]
            kwargs = dict(mapped(kwargs, torch.Tensor.detach))
            if "inplace" in kwargs:
                kwargs["inplace"] = False
            with self._call.autocasting() if autocasts else contextlib.nullcontext():
                result = self._original(*args, **kwargs)
            return torch.autograd.grad(result, leaves, gradient.to(result.dtype), allow_unused=True)


def _needs(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def _marked(value):
    return value.detach().requires_grad_()
