"""Recording of PyTorch programs."""
import sys

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "msprobe.pytorch needs PyTorch, which %s does not have: run this with the Python of the training"
        % sys.executable, name="torch") from None

from msprobe.core.grad_compare import GradComparator
from msprobe.pytorch.debugger import PrecisionDebugger, module_dump, module_dump_end
from msprobe.pytorch.monitor import TrainerMon
from msprobe.pytorch.online_dispatch import PtdbgDispatch
from msprobe.pytorch.random_functions import random_save, unfreeze_random
from msprobe.pytorch.seed import seed_all

__all__ = ["GradComparator", "PrecisionDebugger", "PtdbgDispatch", "TrainerMon", "module_dump", "module_dump_end", "random_save", "seed_all",
           "unfreeze_random"]
