"""Which of several processes this one is, as the monitor names its files."""
from msprobe import _monitor
from msprobe.pytorch.distributed import initialised, ranks_of


def rank_in(group):
    """This process's rank in a group, or 0."""
    distributed = initialised()
    if distributed is None or group is None:
        return 0
    return max(distributed.get_rank(group), 0)


def place(pipeline_group):
    """This process among all; alone when nothing is initialised."""
    distributed = initialised()
    if distributed is None:
        return _monitor.Place()
    mates = ranks_of(pipeline_group)
    rank = distributed.get_rank()
    stage = rank_in(pipeline_group) if pipeline_group is not None else rank
    return _monitor.Place(rank, distributed.get_world_size(), stage,
                          mates or list(range(distributed.get_world_size())))
