"""Capture of a PyTorch script that knows nothing of msprobe."""
import torch
from torch.optim.optimizer import Optimizer

from msprobe import _autocapture
from msprobe.pytorch.debugger import PrecisionDebugger
from msprobe.pytorch.patches import OptimizerWatch


class _Watch(_autocapture.Watch):
    owner = torch.nn.Module

    def __init__(self, debugger):
        super().__init__(debugger)
        self._steps = OptimizerWatch(lambda: None, self.optimizer_stepped)

    @staticmethod
    def optimizer_types():
        return (Optimizer,)

    @staticmethod
    def has_parameters(module):
        return next(module.parameters(), None) is not None

    @staticmethod
    def parts(module):
        return module.modules()

    @staticmethod
    def is_training():
        return torch.is_grad_enabled()

    def install(self):
        super().install()
        self._steps.put()


def activate():
    _autocapture.activate(PrecisionDebugger, _Watch)
