"""What a PyTorch training is to the checker."""
import contextlib
import inspect

import torch

from msprobe import _native
from msprobe._intercept import compilers
from msprobe.core.config_check import notice
from msprobe.core.config_check.calls import CallsOfOne
from msprobe.core.config_check.features import KEYS
from msprobe.pytorch import distributed, values
from msprobe.pytorch.device_statistics import has_memory

_FUNCTIONS = ("rand", "randint", "randn", "rand_like", "randint_like", "randn_like", "manual_seed")
_METHODS = ("exponential_", "geometric_", "log_normal_", "cauchy_")
_HALVES = (torch.float16, torch.bfloat16)
# Elements that are cast at a time on a device, so that nothing of the size of a weight is needed.
_CHUNK = 2**24

model_type, model_word = torch.nn.Module, "torch.nn.Module"


def configure():
    values.configure()


def rank():
    return distributed.rank()


def random_functions():
    """(name in the pack, holder, attribute)"""
    for name in _FUNCTIONS:
        yield "torch." + name, torch, name
    for name in _METHODS:
        yield "torch.Tensor." + name, torch.Tensor, name


def before_replacing():
    """Sets of functions that PyTorch makes when it first needs them hold the originals."""
    with contextlib.suppress(Exception):
        from torch.utils._device import _device_constructors
        _device_constructors()


def after_replacing(replacements):
    """torch.jit.script compiles a stand-in as its original."""
    with contextlib.suppress(Exception):
        from torch.jit import _builtins
        table = _builtins._get_builtin_table()
        for original, replacement in replacements:
            if id(original) in table:
                table[id(replacement)] = table[id(original)]


def named_parameters(model):
    return model.named_parameters()


def can_look():
    """Whether values can be read now: nothing is being compiled, traced or put into a graph."""
    if compilers.is_traced():
        return False
    return not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


# Not there before PyTorch 2.1.
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


class _Hook:
    """Before every call of one model."""

    def __init__(self, before):
        self._before = before

    def __call__(self, module, args, kwargs):
        # The compiler sees a constant and leaves out the rest.
        if not _is_compiling():
            self._before(args, kwargs)

    def __reduce__(self):
        # A copy of the model and its file have a hook that does nothing and is none of ours.
        return getattr, (contextlib.nullcontext(), "__exit__")


def watch_calls(model, before):
    """Calls before(args, kwargs) before every call of the model, until the handle is removed."""
    if "with_kwargs" in inspect.signature(model.register_forward_pre_hook).parameters:
        return model.register_forward_pre_hook(_Hook(before), prepend=True, with_kwargs=True)
    return CallsOfOne(torch.nn.Module, model, before)


class Statistics:
    """Features of the tensors of one forward. Of tensors on a device they are complete after
    `finish`, which waits for each device once."""

    tensor_types = (torch.Tensor,)

    def __init__(self):
        self._rows = {}  # device -> [(features, row)]

    def of(self, tensor, keeps_half):
        local = getattr(tensor, "to_local", None)
        if callable(local):  # of a distributed tensor: the part of this rank
            tensor = local()
        if tensor.device.type in ("cpu", "meta"):
            found = _native.host_statistics(tensor, keeps_half)
            return None if found is None else dict(zip(KEYS, found))
        before = _native.inside(True)
        try:
            with torch.no_grad():
                return self._reduce(tensor.detach(), keeps_half)
        finally:
            _native.inside(before)

    def _reduce(self, tensor, keeps_half):
        """Queues the four numbers on the device; the object that `finish` fills."""
        if tensor.numel() == 0 or tensor.layout is not torch.strided or tensor.is_quantized:
            return None
        if not has_memory(tensor):
            return None
        exact = torch.float64 if tensor.device.type == "cuda" else torch.float32
        parts = []
        for part in tensor.reshape(-1).split(_CHUNK):
            if part.is_complex():
                part = part.abs()
            wide = part.to(torch.float32).to(exact)
            parts.append(torch.stack((wide.max(), wide.min(), wide.sum(), (wide * wide).sum())))
        parts = torch.stack(parts)
        row = torch.stack((parts[:, 0].max(), parts[:, 1].min(),
                           parts[:, 2].sum() / tensor.numel(), parts[:, 3].sum().sqrt()))
        rounded = tensor.dtype if keeps_half and tensor.dtype in _HALVES else torch.float32
        features = {}
        self._rows.setdefault(tensor.device, []).append((features, row.to(rounded).to(exact)))
        return features

    @notice.harmless("tensors on a device")
    def finish(self):
        rows, self._rows = self._rows, {}
        before = _native.inside(True)
        try:
            for queued in rows.values():
                numbers = torch.stack([row for _, row in queued]).cpu().tolist()
                for (features, _), four in zip(queued, numbers):
                    features.update(zip(KEYS, four))
        finally:
            _native.inside(before)
