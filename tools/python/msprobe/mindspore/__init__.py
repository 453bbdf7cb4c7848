"""Recording of MindSpore programs in dynamic-graph (PyNative) mode."""
import sys

try:
    import mindspore  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "mindspore":
        raise
    raise ModuleNotFoundError(
        "msprobe.mindspore needs MindSpore, which %s does not have: run this with the Python of the training"
        % sys.executable, name="mindspore") from None

from msprobe.core.grad_compare import GradComparator
from msprobe.mindspore.debugger import MsprobeStep, PrecisionDebugger
from msprobe.mindspore.monitor import TrainerMon
from msprobe.mindspore.seed import seed_all

__all__ = ["GradComparator", "MsprobeStep", "PrecisionDebugger", "TrainerMon", "seed_all"]
