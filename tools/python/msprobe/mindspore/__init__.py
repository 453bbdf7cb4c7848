"""Recording of MindSpore programs in dynamic-graph (PyNative) mode."""
from msprobe.mindspore.debugger import MsprobeStep, PrecisionDebugger
from msprobe.mindspore.monitor import TrainerMon
from msprobe.mindspore.seed import seed_all

__all__ = ["MsprobeStep", "PrecisionDebugger", "TrainerMon", "seed_all"]
