"""Arguments, rounded up or down at random in the last place."""
import zlib

import torch

from msprobe import _native
from msprobe.pytorch.free_benchmark.perturbation import mapped, on_host

_BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32,
         torch.float64: torch.int64}


def can_round(value):
    return (isinstance(value, torch.Tensor) and value.dtype in _BITS and
            value.layout is torch.strided and not value.is_meta)


class Rounding:
    """What Call.again needs of a perturbation. The lots depend on the name of the call, on `number`,
    which repetition it is, and on the place of the tensor among the arguments: every run of the same
    script sees the same. A tensor that stands in two places is rounded once."""

    def __init__(self, name, number, order=None, copies=False):
        self._seed = "%s:%d" % (name, number)
        self._order = order  # (args, kwargs, seed) -> (args, kwargs, undo) or None
        self._copies = copies  # of what is not rounded: the call may write into it
        self._known = {}
        self._undo = None

    def applied(self, args, kwargs):
        args, kwargs = mapped(args, self.of), mapped(kwargs, self.of)
        other = self._order and self._order(args, kwargs, self.seed)
        if other:
            args, kwargs, self._undo = other
        return args, kwargs

    def restored(self, result):
        """The result in the order of the call as it was."""
        return result if self._undo is None else self._undo(result)

    @property
    def seed(self):
        return zlib.crc32(self._seed.encode())

    def of(self, tensor):
        key = id(tensor)
        if key not in self._known:
            self._known[key] = (self._rounded(tensor.detach()), tensor)  # its id stays its own
        return self._known[key][0]

    def _rounded(self, tensor):
        if not can_round(tensor):
            return tensor.clone() if self._copies else tensor
        seed = zlib.crc32(b"%d" % len(self._known), self.seed) or 1
        if not on_host(tensor):
            return _on_device(tensor, seed)
        plain = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        _native.perturb(tensor, plain, _native.PERTURB_STOCHASTIC_ROUNDING, seed)
        # Functions may look at strides.
        return plain if tensor.is_contiguous() else torch.empty_like(tensor).copy_(plain)


def _on_device(tensor, seed):
    """The rule of src/perturb/perturbation.h where the tensor lies, with lots of its own."""
    generator = torch.Generator(tensor.device).manual_seed(seed)
    bits = tensor.resolve_neg().contiguous().view(_BITS[tensor.dtype])
    lots = torch.randint(4, bits.shape, generator=generator, device=tensor.device, dtype=torch.int32)
    units = (lots == 1).to(bits.dtype) - (lots == 0).to(bits.dtype)
    size = tensor.abs()
    limits = torch.finfo(tensor.dtype)
    return torch.where((size > limits.tiny) & (size < limits.max), (bits + units).view(tensor.dtype),
                       tensor)
