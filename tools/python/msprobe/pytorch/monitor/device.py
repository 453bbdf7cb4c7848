"""Statistics of tensors on an accelerator: reduced where they lie, one copy to the host per step."""
import torch

_ROWS = 4096
_EPSILON = 1e-8


def _wide(values, dtype):
    return values.to(dtype) if values.dtype != dtype else values


class _Buffer:
    def __init__(self, device, columns):
        self.dtype = torch.float64 if device.type == "cuda" else torch.float32
        self.rows = torch.full((_ROWS, columns), float("nan"), dtype=self.dtype, device=device)
        self.tickets = []


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
        """For the extension: what takes the ticket of the tensor's row, or a copy on the host."""
        with torch.no_grad():
            values = tensor.detach()
            if (values.is_complex() or values.dtype == torch.bool or values.dim() == 0
                    or (values.device.type == "cuda" and torch.cuda.is_current_stream_capturing())):
                return values.cpu()
            buffer = self._buffers.get(values.device)
            if buffer is None:
                buffer = self._buffers[values.device] = _Buffer(values.device, len(self._ops))
            if len(buffer.tickets) == _ROWS:
                self._read(buffer)
            wide = _wide(values, buffer.dtype)
            numbers = [self._number(op, values, wide) for op in self._ops]
            torch.stack([number.to(buffer.dtype) for number in numbers],
                        out=buffer.rows[len(buffer.tickets)])
            return buffer.tickets.append

    def _number(self, op, values, wide):
        if op == "norm":
            return torch.linalg.vector_norm(wide)
        if op == "min":
            return wide.min()
        if op == "max":
            return wide.max()
        if op == "mean":
            return wide.mean()
        if op == "zeros":
            return (wide.abs() < self._epsilon).sum() / wide.numel()
        if op == "nans":
            return torch.isnan(values).sum()
        if op == "std":
            return wide.std(unbiased=False)
        if op == "rms":
            return torch.linalg.vector_norm(wide) / wide.numel() ** 0.5
        if op == "amax":
            return wide.abs().max()
        if op == "infs":
            return torch.isinf(values).sum()
        if op == "subnormals" and values.is_floating_point():
            smallest = torch.finfo(values.dtype).tiny
            return ((wide != 0) & (wide.abs() < smallest)).sum()
        if op == "dynamic_range":
            sizes = wide.abs()
            finite = torch.isfinite(sizes) & (sizes > 0)
            least = torch.where(finite, sizes, torch.full_like(sizes, float("inf"))).min()
            largest = torch.where(finite, sizes, torch.zeros_like(sizes)).max()
            return torch.log2(largest) - torch.log2(least)
        return torch.full((), float("nan"), device=wide.device)

    def flush(self):
        for buffer in self._buffers.values():
            self._read(buffer)

    def _read(self, buffer):
        if not buffer.tickets:
            return
        tickets, buffer.tickets = buffer.tickets, []
        for ticket, row in zip(tickets, buffer.rows[:len(tickets)].cpu().tolist()):
            self._engine.fill(ticket, row)
