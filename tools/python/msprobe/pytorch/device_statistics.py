"""Tensors of an accelerator: their statistics are reduced where they lie and come back together.

No call here waits for the device: results go into rows of one buffer per device, which is copied
once per flush. On CUDA a kernel of the capture library reduces a tensor in one pass; where there is
none for it, and on other devices, the framework's own functions do. What is saved or checksummed is
copied by the capture library, behind the stream that produced it and before whatever that stream does
next: no tensor has to be held meanwhile.
"""
import functools
import sys
import threading

import torch

from msprobe import _native
from msprobe.pytorch.device_blocks import blocks_of, largest, mean_of_blocks, norm_of_blocks, smallest
from msprobe.pytorch.device_streams import (
    current_stream as _current_stream, handle_of_stream as _handle_of_stream, made_aside, wait_for_streams)

_ROWS = 4096
# Storage formats of Ascend whose bytes lie in the order of the elements.
_PLAIN_NPU_FORMATS = (-1, 0, 1, 2, 27, 30)
_NO_VALUES = (_native.DEVICE_HOST, 0, 0, 0, None, 0, None)


def has_memory(tensor):
    """Not where it was taken away, as sharding does between uses: an address is nothing but an offset then. Nor has a tracer's stand-in any."""
    try:
        return tensor.data_ptr() != tensor.storage_offset() * tensor.element_size()
    except RuntimeError:
        return False


class _Buffer:
    def __init__(self, device):
        dtype = torch.float64 if device.type == "cuda" else torch.float32
        self.rows = made_aside(lambda: torch.zeros((_ROWS, 4), dtype=dtype, device=device))
        self.address = self.rows.data_ptr()
        self.tickets = []   # of the rows in their order; None until it is told
        self.lock = threading.Lock()
        self.streams = {}   # by handle: those that have written rows since the last reading
        self.scratch = {}   # by handle: what kernels of one stream put their parts into

    def next_row(self):
        """The number of a row that nobody else gets, and what takes its ticket: other threads may record meanwhile."""
        with self.lock:
            number = len(self.tickets)
            self.tickets.append(None)
            return number, functools.partial(self.tickets.__setitem__, number)

    def scratch_of(self, stream):
        if stream not in self.scratch:
            self.scratch[stream] = made_aside(
                lambda: torch.zeros(_native.STATISTICS_SCRATCH_BYTES, dtype=torch.uint8, device=self.rows.device))
        return self.scratch[stream].data_ptr()


class DeviceStatistics:
    def __init__(self, saves_bytes):
        self._saves_bytes = saves_bytes
        self._buffers = {}
        self._copies = False   # whether some may be under way

    def describe(self, tensor):
        """For the extension: (kind, index, address, stream, strides, flags, take_ticket)."""
        before = _native.inside(True)
        try:
            with torch.no_grad():
                return self._describe(tensor)
        finally:
            _native.inside(before)

    def _describe(self, tensor):
        device = tensor.device
        if self._is_captured(device) or not has_memory(tensor):
            # A graph is being captured: what is queued now would become part of it.
            return _NO_VALUES
        values = tensor.detach()
        if values.is_conj():
            values = values.resolve_conj()
        if values.is_neg():
            values = values.resolve_neg()
        kind = _native.DEVICE_CUDA if device.type == "cuda" else _native.DEVICE_ACL
        take = self._reduce(values, kind)
        if take is not None and not self._saves_bytes:
            return (kind, device.index or 0, values.data_ptr(), 0, None, 0, take)
        values = self._in_element_order(values)
        self._copies = True
        return (kind, device.index or 0, values.data_ptr(), self._stream(device), None, 0, take)

    @staticmethod
    def _is_captured(device):
        return device.type == "cuda" and torch.cuda.is_current_stream_capturing()

    @staticmethod
    def _in_element_order(values):
        if values.device.type == "npu":
            npu = sys.modules.get("torch_npu")
            if npu is not None and npu.get_npu_format(values) not in _PLAIN_NPU_FORMATS:
                values = npu.npu_format_cast(values, 2)
        return values.contiguous()

    @staticmethod
    def _stream(device):
        stream = _current_stream(device)
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
            buffer = self._buffers[device] = _Buffer(device)
        if len(buffer.tickets) >= _ROWS - 64:   # some are left for threads that are between this line and their row
            self._read(buffer)
        stream = _handle_of_stream(device)
        if stream not in buffer.streams:
            buffer.streams[stream] = _current_stream(device)
        number, take = buffer.next_row()
        if kind == _native.DEVICE_CUDA and _native.reduce_on_device(
                values, kind, device.index or 0, stream, buffer.address + 32 * number, buffer.scratch_of(stream)):
            return take
        parts, counts = [], []
        for block in blocks_of(values):
            wide = block.to(buffer.rows.dtype)
            parts.append((wide.max(), wide.min(), wide.mean(), torch.linalg.vector_norm(wide)))
            counts.append(block.numel())
        high, low, means, norms = zip(*parts)
        torch.stack((largest(high), smallest(low), mean_of_blocks(means, counts), norm_of_blocks(norms)), out=buffer.rows[number])
        return take

    @staticmethod
    def _read(buffer):
        with buffer.lock:
            tickets, buffer.tickets = buffer.tickets, []
        if not tickets:
            return
        wait_for_streams(buffer.streams, buffer.rows.device)
        for ticket, row in zip(tickets, buffer.rows[:len(tickets)].cpu().tolist()):
            if ticket is not None:
                _native.fill_statistics(ticket, *row)

    def flush(self):
        before = _native.inside(True)
        try:
            for buffer in self._buffers.values():
                self._read(buffer)
        finally:
            _native.inside(before)
        if self._copies:
            _native.device_wait()
            self._copies = False
