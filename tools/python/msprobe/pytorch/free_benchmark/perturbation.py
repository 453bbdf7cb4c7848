"""Arguments of a call, changed a little."""
import math

import torch

from msprobe._free_benchmark import structures
from msprobe._free_benchmark.structures import perturbed

_NOISE = {torch.bfloat16: 1e-4, torch.float16: 1e-6, torch.float32: 1e-8, torch.float64: 1e-16}
_BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32,
         torch.float64: torch.int64}
_HALVES = (torch.float16, torch.bfloat16)


def mapped(value, change):
    """The structure of lists, tuples and dicts with change(tensor) in place of every tensor."""
    return structures.mapped(value, torch.Tensor, change)


def tensors_in(*values):
    found = []
    mapped(values, lambda tensor: found.append(tensor) or tensor)
    return found


def on_host(tensor):
    return tensor.device.type == "cpu"


def position_of(args):
    """Of the argument to change: the first floating tensor, list, tuple or dict."""
    for position, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() and not value.is_meta:
                return position
        elif isinstance(value, (list, tuple, dict)):
            return position
    return None


class Perturbation:
    """Changes arguments as the settings say."""

    def __init__(self, settings):
        self._mode = settings.mode
        self._ulps = settings.noise_ulps
        self._all = settings.all_inputs

    def applied(self, args, kwargs):
        """(args, kwargs) of the second run, or None where there is none: nothing to cast."""
        if self._mode == "improve_precision":
            cast = []

            def widen(tensor):
                if tensor.dtype not in _HALVES:
                    return tensor
                cast.append(True)
                return tensor.detach().float()

            changed = mapped(args, widen), mapped(kwargs, widen)
            return changed if cast else None
        if self._mode == "to_cpu":
            return mapped(args, _to_cpu), mapped(kwargs, _to_cpu)
        position = position_of(args)
        if position is None:
            return None
        if self._mode == "no_change":
            return args, kwargs
        if self._all:
            return self.changed(args), self.changed(kwargs)
        return args[:position] + (self.changed(args[position]),) + args[position + 1:], kwargs

    def changed(self, value):
        """The structure with its first tensor that can be changed in another version, or with all of
        them."""
        state = {"done": False}

        def change(tensor):
            if state["done"] or not tensor.is_floating_point() or tensor.is_meta:
                return tensor
            changed = self.of_tensor(tensor.detach())
            state["done"] = changed is not None and not self._all
            return tensor if changed is None else changed

        return mapped(value, change)

    def of_tensor(self, tensor):
        """A changed copy, or None where the tensor is not to be changed."""
        if tensor.layout is not torch.strided or tensor.dtype not in _NOISE:
            return None
        if not on_host(tensor):
            return _on_device(tensor, self._mode, self._ulps)
        out = torch.empty(tensor.shape, dtype=tensor.dtype)
        return out if perturbed(tensor, out, self._mode, self._ulps) else None


def _to_cpu(tensor):
    copy = tensor.detach().cpu()
    if copy.dtype in _HALVES:
        return copy.float()
    return copy.clone() if copy.data_ptr() == tensor.data_ptr() else copy


def _on_device(tensor, mode, ulps):
    """The rules of src/perturb/perturbation.h where the tensor lies."""
    if tensor.numel() == 0:
        return None
    if mode == "change_value":
        return _ends_swapped(tensor)
    size = tensor.abs()
    tiny = torch.finfo(tensor.dtype).tiny
    # Without the bit that negates a view lazily: bits are looked at.
    bits = tensor.resolve_neg().contiguous().view(_BITS[tensor.dtype])
    if mode == "add_noise" and ulps:
        moved = (bits + ulps).view(tensor.dtype)
        movable = (size >= tiny) & torch.isfinite(moved) & torch.isfinite(tensor)
        return torch.where(movable, moved, tensor) if bool(movable.any()) else None
    noise = _NOISE[tensor.dtype]
    if bool(size.max() < noise):
        return None
    if mode == "add_noise":
        return torch.where(size > math.sqrt(noise), tensor + noise, tensor)
    return torch.where(size > tiny, (bits ^ 1).view(tensor.dtype), tensor)


def _ends_swapped(tensor):
    shape = tensor.shape
    if tensor.dim() == 0 or shape[0] < 1:
        return None
    if shape[0] < 2 if tensor.dim() == 1 else shape[1] < 1 or (shape[0] < 2 and shape[1] < 2):
        return None
    first, last = ((0,), (-1,)) if tensor.dim() == 1 else ((0, 0), (-1, -1))
    changed = tensor.clone()
    changed[first], changed[last] = tensor[last], tensor[first]
    return changed
