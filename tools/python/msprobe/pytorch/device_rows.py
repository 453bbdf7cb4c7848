"""Numbers that are reduced on a device: rows of one tensor there, read back together."""
import functools
import threading

import torch

from msprobe.pytorch.device_streams import current_stream, handle_of_stream, is_recorded, made_aside, wait_for_streams

_ROWS = 4096
_LEFT = 64   # for threads that are between asking whether there is room and their row


class Rows:
    """Of one device. Any thread may write into them, on any stream."""

    def __init__(self, device, columns):
        self.device = device
        self.dtype = torch.float64 if device.type == "cuda" else torch.float32
        self.numbers = made_aside(
            device, lambda: torch.full((_ROWS, columns), float("nan"), dtype=self.dtype, device=device))
        self._tickets = []   # of the rows in their order; None until it is known
        self._lock = threading.Lock()
        self._streams = {}   # by handle: those that have written rows since the last reading

    def are_full(self):
        return len(self._tickets) >= _ROWS - _LEFT

    def next(self):
        """The number of a row that is used only once, and what takes its ticket."""
        with self._lock:
            number = len(self._tickets)
            self._tickets.append(None)
            return number, functools.partial(self._tickets.__setitem__, number)

    def written(self):
        """What writes a row is queued on the current stream; its ticket is taken after this."""
        handle = handle_of_stream(self.device)
        if handle not in self._streams:
            self._streams[handle] = current_stream(self.device)

    def read(self):
        """[(ticket, row)]; all rows are free again. Nothing while a graph is recorded: the next reading has them."""
        if not self._tickets or is_recorded(self.device):
            return []
        with self._lock:   # until the rows are copied nothing writes into them
            tickets, self._tickets = list(self._tickets), []
            wait_for_streams(self._streams, self.device)
            rows = self.numbers[:len(tickets)].cpu().tolist()
        return [(ticket, row) for ticket, row in zip(tickets, rows) if ticket is not None]
