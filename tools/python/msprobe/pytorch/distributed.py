"""Which of several processes this one is."""
import os
import sys


def rank():
    """This process's rank: of torch.distributed once it is initialised, before that of the launcher
    when there are several processes, else -1."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    try:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            return int(os.environ.get("RANK", "-1"))
    except ValueError:
        pass
    return -1
