"""Recording of PyTorch programs."""
from msprobe.pytorch.debugger import PrecisionDebugger, module_dump, module_dump_end
from msprobe.pytorch.monitor import TrainerMon
from msprobe.pytorch.seed import seed_all

__all__ = ["PrecisionDebugger", "TrainerMon", "module_dump", "module_dump_end", "seed_all"]
