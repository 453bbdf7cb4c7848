"""A few elements of every tensor of a kind, as one vector of float64 on the host: what laws are checked on.

Of a tensor of up to 256 elements all are taken, of a larger one 256 at equal distances. All tensors of a kind come by one copy, so that a
law costs one vector operation for all parameters and not one for each. Sums by tensor are taken in float64: against the error of the
training's own arithmetic they count as exact.
"""
import zlib

import torch

MOST = 256  # elements of a tensor
_EXACT = {torch.float64: 2.0 ** -52, torch.float32: 2.0 ** -23, torch.float16: 2.0 ** -10, torch.bfloat16: 2.0 ** -7}


def local(tensor):
    """What this process holds of it."""
    held = getattr(tensor, "_local_tensor", None)
    return tensor if held is None else held


def epsilon(dtype):
    """The distance from 1 to the next number."""
    return _EXACT.get(dtype, 2.0 ** -23)


def picked(tensor):
    """The elements of one tensor, in one dimension; a view where its memory allows that."""
    tensor = local(tensor).detach()
    if tensor.layout != torch.strided:
        tensor = tensor.coalesce()._values() if tensor.layout == torch.sparse_coo else tensor.to_dense()
    count = tensor.numel()
    flat = tensor.reshape(-1) if not tensor.is_contiguous() else tensor.view(-1)
    return flat if count <= MOST else flat[::count // MOST][:MOST]


def is_plain(tensor):
    """Whether elements may be taken: not where they are elsewhere at the moment, or of a kind without numbers."""
    held = local(tensor)
    return held.layout == torch.strided and held.is_floating_point() and held.device.type != "meta" and held.numel() > 0


class Rows:
    """Places of the elements of several tensors in their common vector."""

    def __init__(self, tensors):
        self.sizes = [min(local(tensor).numel(), MOST) for tensor in tensors]
        self.count = len(self.sizes)
        self.total = sum(self.sizes)
        self.starts = []
        start = 0
        for size in self.sizes:
            self.starts.append(start)
            start += size
        self.owner = torch.repeat_interleave(torch.arange(self.count), torch.tensor(self.sizes, dtype=torch.long))
        self._kept = {}  # (kind, index): (address, view)

    def gather(self, tensors, kind=None):
        """(vector, [whether there is one]) of tensors or None. With a kind, views are kept from step to step."""
        parts, present = [], []
        for index, (tensor, size) in enumerate(zip(tensors, self.sizes)):
            part = None if tensor is None else self._part(tensor, (kind, index))
            if part is not None and part.numel() != size:
                part = None
            present.append(part is not None)
            parts.append(torch.zeros(size) if part is None else part)
        return _joined(parts), present

    def _part(self, tensor, key):
        held = local(tensor)
        if key[0] is None:
            return picked(tensor)
        known = self._kept.get(key)
        address = held.data_ptr()
        if known is None or known[0] != address or not address:
            known = self._kept[key] = (address, picked(tensor))
        return known[1]

    def sums(self, values):
        """By tensor."""
        return torch.zeros(self.count, dtype=torch.float64).index_add_(0, self.owner, values.double())

    def any(self, flags):
        return self.sums(flags) > 0

    def spread(self, values):
        """One number of each tensor at all its elements."""
        return torch.as_tensor(values, dtype=torch.float64)[self.owner]

    def part(self, values, index):
        return values[self.starts[index]:self.starts[index] + self.sizes[index]]


def _joined(parts):
    if not parts:
        return torch.zeros(0, dtype=torch.float64)
    kinds = {(part.device, part.dtype) for part in parts}
    if len(kinds) == 1:
        return torch.cat(parts).cpu().double()
    if len({device for device, _ in kinds}) == 1:
        return torch.cat([part.double() if part.dtype == torch.float64 else part.float() for part in parts]).cpu().double()
    return torch.cat([part.cpu().double() for part in parts])


def digest(values):
    """Of a vector of the host: equal bits, equal number."""
    return zlib.crc32(values.numpy().tobytes())


def weights(total):
    """The same numbers between -1 and 1 in every process: sums of a gradient with them cancel by accident alone, where plain ones cancel by
    construction (what comes out of a softmax adds up to zero)."""
    place = torch.arange(total, dtype=torch.float64)
    return torch.remainder(place * 0.7548776662466927 + 0.31, 1.0) * 2 - 1, torch.remainder(place * 0.5698402909980532 + 0.17, 1.0) * 2 - 1
