"""Capture of a PyTorch script that knows nothing of msprobe."""
import torch

from msprobe import _autocapture
from msprobe._intercept.optimizer_steps import EveryStep
from msprobe.pytorch.debugger import PrecisionDebugger
from msprobe.pytorch.watch import ModelWatch


class _Watch(ModelWatch):
    def __init__(self, debugger):
        super().__init__(debugger)
        self._steps = EveryStep(lambda: None, self.optimizer_stepped)

    @staticmethod
    def is_helper():
        return torch.utils.data.get_worker_info() is not None

    @staticmethod
    def is_training():
        return torch.is_grad_enabled()

    def install(self):
        super().install()
        self._steps.put()


def activate():
    _autocapture.activate(PrecisionDebugger, _Watch)
