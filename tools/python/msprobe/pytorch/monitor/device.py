"""Statistics of tensors on an accelerator: reduced where they lie, one copy to the host per step."""
import torch

from msprobe.pytorch.device_blocks import blocks_of, largest, mean_of_blocks, norm_of_blocks, smallest
from msprobe.pytorch.device_rows import Rows
from msprobe.pytorch.device_statistics import has_memory
from msprobe.pytorch.device_streams import is_recorded

_EPSILON = 1e-8


def _wide(values, dtype):
    return values.to(dtype) if values.dtype != dtype else values


def _join(op, parts, counts):
    """The number of a tensor, of what _measure() found in its blocks."""
    if op in ("max", "amax"):
        return largest(parts)
    if op == "min":
        return smallest(parts)
    if op == "mean":
        return mean_of_blocks(parts, counts)
    if op == "norm":
        return norm_of_blocks(parts)
    if op == "rms":
        return norm_of_blocks(parts) / sum(counts) ** 0.5
    if op == "zeros":
        return sum(parts) / sum(counts)
    if op == "std":
        means, variances = zip(*parts)
        mean = mean_of_blocks(means, counts)
        return mean_of_blocks([variance + (part - mean) ** 2 for part, variance in zip(means, variances)], counts).sqrt()
    if op == "dynamic_range":
        least, most = zip(*parts)
        return torch.log2(largest(most)) - torch.log2(smallest(least))
    return sum(parts)


class DeviceStatistics:
    """No call here waits for the device: numbers go into the rows of one buffer per device."""

    def __init__(self, engine, settings):
        self._engine = engine
        self._buffers = {}
        self.set_ops(settings)

    def set_ops(self, settings):
        self.flush()
        self._ops = [op for op in settings["ops"] if op not in ("shape", "dtype")]
        self._epsilon = float(settings.get("eps", _EPSILON))
        self._buffers = {}

    def describe(self, tensor):
        """For the extension: what takes the ticket of the tensor's row, a copy on the host, or None where there is nothing to read."""
        with torch.no_grad():
            # What a DTensor holds on this rank.
            values = getattr(tensor, "_local_tensor", tensor).detach()
            if is_recorded(values.device) or not has_memory(values):
                return None
            if values.is_complex() or values.dtype == torch.bool or values.dim() == 0:
                return values.cpu()
            buffer = self._buffers.get(values.device)
            if buffer is None:
                buffer = self._buffers.setdefault(values.device, Rows(values.device, len(self._ops)))
            if buffer.are_full():
                self._read(buffer)
            parts, counts = [], []
            for block in blocks_of(values):
                wide = _wide(block, buffer.dtype)
                parts.append([self._measure(op, block, wide) for op in self._ops])
                counts.append(block.numel())
            numbers = [_join(op, list(of_op), counts) for op, of_op in zip(self._ops, zip(*parts))]
            row, take = buffer.next()
            if numbers:   # not if shape and dtype are all that is asked
                torch.stack([number.to(buffer.dtype) for number in numbers], out=buffer.numbers[row])
            buffer.written()
            return take

    def _measure(self, op, values, wide):
        """What _join() needs of a block: a number, or two."""
        if op in ("norm", "rms"):
            return torch.linalg.vector_norm(wide)
        if op == "min":
            return wide.min()
        if op == "max":
            return wide.max()
        if op == "mean":
            return wide.mean()
        if op == "zeros":
            return (wide.abs() < self._epsilon).sum()
        if op == "nans":
            return torch.isnan(values).sum()
        if op == "std":
            return wide.mean(), wide.var(unbiased=False)
        if op == "amax":
            return wide.abs().max()
        if op == "infs":
            return torch.isinf(values).sum()
        if op == "subnormals" and values.is_floating_point():
            smallest_normal = torch.finfo(values.dtype).tiny
            return ((wide != 0) & (wide.abs() < smallest_normal)).sum()
        if op == "dynamic_range":
            sizes = wide.abs()
            finite = torch.isfinite(sizes) & (sizes > 0)
            least = torch.where(finite, sizes, torch.full_like(sizes, float("inf"))).min()
            most = torch.where(finite, sizes, torch.zeros_like(sizes)).max()
            return least, most
        return torch.full((), float("nan"), device=wide.device)

    def flush(self):
        for buffer in list(self._buffers.values()):
            self._read(buffer)

    def _read(self, buffer):
        for ticket, row in buffer.read():
            self._engine.fill(ticket, row)
