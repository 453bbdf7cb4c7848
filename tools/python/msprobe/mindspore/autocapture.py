"""Capture of a MindSpore script that knows nothing of msprobe.

Optimizers are Cells: a step ends when one has been called, or the outermost Cell that called one.
Whether gradients are computed cannot be asked: forwards between two training steps, an evaluation,
belong to the later one.
"""
import importlib

import mindspore

from msprobe import _autocapture
from msprobe.mindspore.debugger import PrecisionDebugger


def _optimizer_types():
    for name in ("nn", "experimental.optim", "mint.optim"):
        try:
            module = importlib.import_module("mindspore." + name)
        except ImportError:  # not in this version
            continue
        if hasattr(module, "Optimizer"):
            yield module.Optimizer


class _Watch(_autocapture.Watch):
    owner = mindspore.nn.Cell
    _types = None
    _stepped_inside = False

    @classmethod
    def optimizer_types(cls):
        if cls._types is None:
            cls._types = tuple(dict.fromkeys(_optimizer_types()))
        return cls._types

    @staticmethod
    def has_parameters(cell):
        return any(part._params for _, part in cell.cells_and_names())

    @staticmethod
    def parts(cell):
        return [part for _, part in cell.cells_and_names()]

    def inside(self, cell):
        if isinstance(cell, self._types):
            self._stepped_inside = True

    def outermost_ended(self, cell):
        if self._stepped_inside or isinstance(cell, self._types):
            self._stepped_inside = False
            self.optimizer_stepped()


def activate():
    _autocapture.activate(PrecisionDebugger, _Watch)
