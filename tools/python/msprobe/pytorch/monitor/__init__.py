"""The training monitor for PyTorch."""
from msprobe.pytorch.monitor.trainer_mon import TrainerMon

__all__ = ["TrainerMon"]
