"""What a model and an optimizer are to those who watch a script that knows nothing of msprobe."""
import torch
from torch.optim.optimizer import Optimizer

from msprobe import _autocapture


class ModelWatch(_autocapture.Watch):
    """Sees modules of PyTorch that are called from outside any module."""

    owner = torch.nn.Module

    @staticmethod
    def optimizer_types():
        return (Optimizer,)

    @staticmethod
    def has_parameters(module):
        return next(module.parameters(), None) is not None

    @staticmethod
    def parts(module):
        return module.modules()
