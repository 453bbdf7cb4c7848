"""Recording of MindSpore programs in dynamic-graph (PyNative) mode."""
from msprobe.mindspore.debugger import MsprobeStep, PrecisionDebugger
from msprobe.mindspore.seed import seed_all

__all__ = ["MsprobeStep", "PrecisionDebugger", "seed_all"]
