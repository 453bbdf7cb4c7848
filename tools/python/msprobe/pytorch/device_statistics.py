"""Tensors of an accelerator: their statistics are reduced where they lie and come back together.

No call here waits for the device: results go into rows of one buffer per device, which is copied
once per flush. On CUDA a kernel of the capture library reduces a tensor in one pass; where there is
none for it, and on other devices, the framework's own functions do. What is saved or checksummed is
copied by the capture library, behind the stream that produced it and before whatever that stream does
next: no tensor has to be held meanwhile.
"""
import sys

import torch

from msprobe import _native
from msprobe.pytorch.device_blocks import blocks_of, largest, mean_of_blocks, norm_of_blocks, smallest
from msprobe.pytorch.device_rows import Rows
from msprobe.pytorch.device_streams import current_stream, handle_of_stream, is_recorded, made_aside

# Storage formats of Ascend whose bytes lie in the order of the elements.
_PLAIN_NPU_FORMATS = (-1, 0, 1, 2, 27, 30)
_NO_VALUES = (_native.DEVICE_HOST, 0, 0, 0, None, 0, None, None)


def has_memory(tensor):
    """Not where it was taken away, as sharding does between uses: an address is nothing but an offset then. Nor has a tracer's stand-in any."""
    try:
        return tensor.data_ptr() != tensor.storage_offset() * tensor.element_size()
    except RuntimeError:
        return False


class _Buffer(Rows):
    def __init__(self, device):
        super().__init__(device, 4)
        self.address = self.numbers.data_ptr()
        self._scratch = {}   # by handle of the stream: what its kernels put their parts into

    def scratch_of(self, stream):
        """Its address. Never replaced, even if two threads make one: a kernel may be using it."""
        scratch = self._scratch.get(stream)
        if scratch is None:
            device = self.device
            scratch = self._scratch.setdefault(stream, made_aside(
                device, lambda: torch.zeros(_native.STATISTICS_SCRATCH_BYTES, dtype=torch.uint8, device=device)))
        return scratch.data_ptr()


class DeviceStatistics:
    def __init__(self, saves_bytes):
        self._saves_bytes = saves_bytes
        self._buffers = {}
        self._copies = False   # whether some may be under way

    def describe(self, tensor):
        """For the extension: (kind, index, address, stream, strides, flags, what keeps the memory until the copy is
        queued, take_ticket)."""
        before = _native.inside(True)
        try:
            with torch.no_grad():
                return self._describe(tensor)
        finally:
            _native.inside(before)

    def _describe(self, tensor):
        device = tensor.device
        if is_recorded(device) or not has_memory(tensor):
            return _NO_VALUES
        values = tensor.detach()
        if values.is_conj():
            values = values.resolve_conj()
        if values.is_neg():
            values = values.resolve_neg()
        kind = _native.DEVICE_CUDA if device.type == "cuda" else _native.DEVICE_ACL
        take = self._reduce(values, kind)
        if take is not None and not self._saves_bytes:
            return (kind, device.index or 0, values.data_ptr(), 0, None, 0, None, take)
        values = self._in_element_order(values)
        self._copies = True
        return (kind, device.index or 0, values.data_ptr(), self._stream(device), None, 0, values, take)

    @staticmethod
    def _in_element_order(values):
        if values.device.type == "npu":
            npu = sys.modules.get("torch_npu")
            if npu is not None and npu.get_npu_format(values) not in _PLAIN_NPU_FORMATS:
                values = npu.npu_format_cast(values, 2)
        return values.contiguous()

    @staticmethod
    def _stream(device):
        stream = current_stream(device)
        if device.type == "npu":
            stream.synchronize()  # its work is queued by a thread of its own, not by this one
        return getattr(stream, device.type + "_stream", 0)

    def _reduce(self, values, kind):
        """Queues max, min, mean and norm into a row; what takes the row's ticket, or None where the
        library works from the bytes."""
        if values.is_complex() or values.dtype == torch.bool or values.dim() == 0:
            return None
        device = values.device
        buffer = self._buffers.get(device)
        if buffer is None:
            buffer = self._buffers.setdefault(device, _Buffer(device))
        if buffer.are_full():
            self._read(buffer)
        stream = handle_of_stream(device)
        number, take = buffer.next()
        if not (kind == _native.DEVICE_CUDA and _native.reduce_on_device(
                values, kind, device.index or 0, stream, buffer.address + 32 * number, buffer.scratch_of(stream))):
            self._reduce_in_blocks(values, buffer.numbers[number])
        buffer.written()
        return take

    @staticmethod
    def _reduce_in_blocks(values, row):
        parts, counts = [], []
        for block in blocks_of(values):
            wide = block.to(row.dtype)
            parts.append((wide.max(), wide.min(), wide.mean(), torch.linalg.vector_norm(wide)))
            counts.append(block.numel())
        high, low, means, norms = zip(*parts)
        torch.stack((largest(high), smallest(low), mean_of_blocks(means, counts), norm_of_blocks(norms)), out=row)

    @staticmethod
    def _read(buffer):
        for ticket, row in buffer.read():
            _native.fill_statistics(ticket, *row)

    def flush(self):
        before = _native.inside(True)
        try:
            for buffer in list(self._buffers.values()):
                self._read(buffer)
        finally:
            _native.inside(before)
        if self._copies:
            _native.device_wait()
            self._copies = False
