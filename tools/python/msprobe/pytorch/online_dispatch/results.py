"""What is written of the calls: two tables and, where asked for, their tensors."""
import os
import time

import torch

from msprobe import _native
from msprobe._files import csv_row

_RESULT = ("API Name", "Forward Test Success", "Backward Test Success")
_DETAILS = ("Npu Name", "Bench Dtype", "NPU Dtype", "Shape", "error_balance", "max_abs_diff",
            "max_abs_idx", "max_rel_diff", "max_rel_idx", "eb_thd", "error_thd", "Status", "Message")
_MESSAGES = {_native.AGREEMENT_SHAPES: "the results have different numbers of elements",
             _native.AGREEMENT_CPU_NOT_FINITE: "the CPU's result holds NaN or infinities: not judged",
             _native.AGREEMENT_DEVICE_NOT_FINITE: "NaN or infinities on the device alone",
             _native.AGREEMENT_ZEROS: "dropout: judged by the number of zeros"}


class Verdict:
    """One output of a call."""

    __slots__ = ("cells", "passed", "error")

    def __init__(self, name, device, cpu, agreement):
        (self.passed, reason, balance, absolute, absolute_at, relative, relative_at, balance_limit,
         limit) = agreement
        self.error = relative
        numbers = ["%.14f" % value for value in (balance, absolute, relative, balance_limit, limit)]
        self.cells = (name, cpu.dtype, device.dtype, "(%d,)" % device.numel(), numbers[0], numbers[1],
                      _shown(absolute_at), numbers[2], _shown(relative_at), numbers[3], numbers[4],
                      self.passed, _MESSAGES.get(reason, ""))


def _shown(index):
    return "" if index is None else index


class _Table:
    """A row is the system's as soon as it is written; the file stays open as long as the process."""

    def __init__(self, path, header):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        os.write(self._file, b"\xef\xbb\xbf")
        self.write(header)

    def write(self, row):
        os.write(self._file, csv_row(row).encode("utf-8"))


class Results:
    """The folder of one PtdbgDispatch."""

    def __init__(self, dump_path, tag, rank):
        stamp = time.strftime("%Y%m%d%H%M%S")
        stem = "msprobe_%srank%d_%s" % (tag + "_" if tag else "", rank, stamp)
        number = 0
        while True:  # two of one second
            name = stem if number == 0 else "%s_%d" % (stem, number)
            self.folder = os.path.join(dump_path, name)
            try:
                os.mkdir(self.folder, 0o750)
                break
            except FileExistsError:
                number += 1
        for side in ("npu", "cpu"):
            os.mkdir(os.path.join(self.folder, side), 0o750)
        self.result_path = os.path.join(self.folder, "accuracy_checking_result_%s.csv" % stamp)
        self._result = _Table(self.result_path, _RESULT)
        self._details = _Table(
            os.path.join(self.folder, "accuracy_checking_details_%s.csv" % stamp), _DETAILS)

    def add(self, base, verdicts):
        for verdict in verdicts:
            self._details.write(verdict.cells)
        self._result.write((base + "_output", all(verdict.passed for verdict in verdicts), "Nan"))

    def dump(self, call, device, cpu):
        """Arguments as they were before the call, and both results."""
        base = call.base
        for index, value in enumerate(call.inputs):
            self._dump("npu", "%s_input.%d" % (base, index), value)
        for key, value in call.keywords.items():
            self._dump("npu", "%s_input_%s" % (base, key), value)
        for side, result in (("npu", device), ("cpu", cpu)):
            self._dump(side, base + "_output", result)

    def _dump(self, side, name, value):
        if isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                self._dump(side, "%s.%d" % (name, index), item)
            return
        if isinstance(value, float):
            value = torch.tensor(value, dtype=torch.float64)
        elif isinstance(value, (bool, int)):
            value = torch.tensor(value)
        if isinstance(value, torch.Tensor):
            path = os.path.join(self.folder, side, name + ".npy")
            _native.write_npy(os.fsencode(path), value.detach())
