"""Tensors of an accelerator: their statistics are reduced where they lie and come back together.

No call here waits for the device: results go into rows of one buffer per device, which is copied
once per flush. What is saved or checksummed is copied by the capture library, behind the stream
that produced it; those tensors are held until it says so.
"""
import sys

import torch

from msprobe import _native

_ROWS = 4096
# Tensors on their way to the host are held up to here: a step must not keep all of them alive.
_MAX_HELD_BYTES = 256 * 2**20
# Storage formats of Ascend whose bytes lie in the order of the elements.
_PLAIN_NPU_FORMATS = (-1, 0, 1, 2, 27, 30)


class _Buffer:
    def __init__(self, device):
        self.rows = torch.empty((_ROWS, 4), dtype=torch.float64 if device.type == "cuda"
                                else torch.float32, device=device)
        self.tickets = []

    def next_row(self):
        return self.rows[len(self.tickets)]


class DeviceStatistics:
    def __init__(self, saves_bytes):
        self._saves_bytes = saves_bytes
        self._buffers = {}
        self._held = []
        self._held_bytes = 0

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
        if self._is_captured(device):
            # A graph is being captured: what is queued now would become part of it.
            return (_native.DEVICE_HOST, 0, 0, 0, None, 0, None)
        values = tensor.detach()
        if values.is_conj():
            values = values.resolve_conj()
        if values.is_neg():
            values = values.resolve_neg()
        take = self._reduce(values)
        kind = _native.DEVICE_CUDA if device.type == "cuda" else _native.DEVICE_ACL
        if take is not None and not self._saves_bytes:
            return (kind, device.index or 0, values.data_ptr(), 0, None, 0, take)
        values = self._in_element_order(values)
        self._hold(values)
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

    def _hold(self, values):
        self._held.append(values)
        self._held_bytes += values.numel() * values.element_size()
        if self._held_bytes > _MAX_HELD_BYTES:
            self._let_go()

    def _let_go(self):
        _native.device_wait()
        self._held.clear()
        self._held_bytes = 0

    @staticmethod
    def _stream(device):
        accelerator = getattr(torch, device.type)
        stream = accelerator.current_stream(device)
        if device.type == "npu":
            stream.synchronize()  # its work is queued by a thread of its own, not by this one
        return getattr(stream, device.type + "_stream", 0)

    def _reduce(self, values):
        """Queues max, min, mean and norm into a row; what takes the row's ticket, or None where the
        library works from the bytes."""
        if values.is_complex() or values.dtype == torch.bool or values.dim() == 0:
            return None
        buffer = self._buffers.get(values.device)
        if buffer is None:
            buffer = self._buffers[values.device] = _Buffer(values.device)
        if len(buffer.tickets) == _ROWS:
            self._read(buffer)
        row = buffer.next_row()
        wide = values.to(buffer.rows.dtype)
        torch.stack((wide.max(), wide.min(), wide.mean(), torch.linalg.vector_norm(wide)), out=row)
        return buffer.tickets.append

    @staticmethod
    def _read(buffer):
        if not buffer.tickets:
            return
        for ticket, row in zip(buffer.tickets, buffer.rows[:len(buffer.tickets)].cpu().tolist()):
            _native.fill_statistics(ticket, *row)
        buffer.tickets.clear()

    def flush(self):
        before = _native.inside(True)
        try:
            for buffer in self._buffers.values():
                self._read(buffer)
        finally:
            _native.inside(before)
        if self._held:
            self._let_go()
