"""Where faults of operators happen, and who saw what: every ATen operator of one run, in order.

`Kernels` is a dispatch mode below autograd. It computes each operator as the background says, lets
planted faults change results, and keeps a trace of (operator, phase, module, bits of the result).
"""
import zlib

import torch
from msprobe import _native
from torch.utils._python_dispatch import TorchDispatchMode

import backgrounds

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"


class Place:
    """The nth call of an operator within a phase of a step."""

    def __init__(self, step, phase, name, nth):
        self.step, self.phase, self.name, self.nth = step, phase, name, nth

    def key(self):
        return (self.step, self.phase, self.name, self.nth)


class Modules:
    """Which modules the forward is inside of, told by hooks of PyTorch's own."""

    def __init__(self, model):
        self.names = {id(module): name for name, module in model.named_modules()}
        self.stack = []
        self.handles = [
            torch.nn.modules.module.register_module_forward_pre_hook(self._enter),
            torch.nn.modules.module.register_module_forward_hook(self._leave)]

    def _enter(self, module, inputs):
        self.stack.append(self.names.get(id(module), ""))

    def _leave(self, module, inputs, output):
        self.stack.pop()


def bits(tensor):
    """A checksum of a tensor's values."""
    try:
        flat = tensor.detach().contiguous().reshape(-1)
        if flat.dtype == torch.bfloat16:
            flat = flat.view(torch.int16)
        return zlib.crc32(flat.numpy().tobytes())
    except (RuntimeError, TypeError):
        return 0


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def _address(tensor):
    return tensor.storage().data_ptr() if tensor.layout == torch.strided else 0


def _tells_nothing(name):
    """Operators whose results are memory or handles, not values."""
    return "empty" in name or name.startswith("_record_function")


class Kernels(TorchDispatchMode):
    def __init__(self, kind, modules, faults=(), trace=None):
        super().__init__()
        self.kind, self.modules, self.trace = kind, modules, trace
        self.faults = {place.key(): change for place, change in faults}
        self.fired = []
        self.counts_of = {}
        self.go_on(0, FORWARD)

    def go_on(self, step, phase):
        """What comes next belongs to this phase; calls of operators are counted per step and phase."""
        self.step, self.phase = step, phase
        self.counts = self.counts_of.setdefault((step, phase), {})

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        before = _native.inside(True)  # what happens in here is no call of the script
        try:
            return self._call(func, args, kwargs or {})
        finally:
            _native.inside(before)

    def _call(self, func, args, kwargs):
        name = func._schema.name.split("::")[-1]
        result = backgrounds.compute(self.kind, name, func, args, kwargs)
        nth = self.counts.get(name, 0)
        self.counts[name] = nth + 1
        change = self.faults.get((self.step, self.phase, name, nth))
        if change is not None:
            before = bits(next(tensors(result)))
            result = change(func, args, kwargs, result)
            self.fired.append(dict(step=self.step, phase=self.phase, op=name, nth=nth, modules=list(self.modules.stack),
                                   changed=bits(next(tensors(result))) != before))
        if self.trace is not None:
            self._note(name, nth, args, result)
        return result

    def _note(self, name, nth, args, result):
        first = next(tensors(result), None)
        if first is None or first.layout != torch.strided or _tells_nothing(name):
            return
        in_place = name.endswith("_")
        is_view = not in_place and first.numel() > 0 and any(
            _address(first) == _address(tensor) for tensor in tensors(args))
        self.trace.append(dict(step=self.step, phase=self.phase, op=name, nth=nth, modules=list(self.modules.stack),
                               numel=first.numel(), floating=first.is_floating_point(), view=is_view,
                               shape=list(first.shape), bits=bits(first)))
