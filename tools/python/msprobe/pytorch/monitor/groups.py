"""Which of several processes this one is, and who belongs to its groups."""
import sys

from msprobe import _monitor


def _distributed():
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed
    return None


def ranks_of(group):
    """The global ranks of a process group; None where there are none."""
    distributed = _distributed()
    if distributed is None or group is None:
        return None
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    if group is getattr(getattr(distributed, "GroupMember", None), "NON_GROUP_MEMBER", None):
        return None
    if group is getattr(getattr(distributed, "GroupMember", None), "WORLD", object()):
        return list(range(distributed.get_world_size()))
    if hasattr(c10d, "get_process_group_ranks"):
        return list(c10d.get_process_group_ranks(group))
    return sorted(c10d._pg_group_ranks[group])


def rank_in(group):
    """This process's rank in a group, or 0."""
    distributed = _distributed()
    if distributed is None or group is None:
        return 0
    return max(distributed.get_rank(group), 0)


def place(pipeline_group):
    """This process among all; alone when nothing is initialised."""
    distributed = _distributed()
    if distributed is None:
        return _monitor.Place()
    mates = ranks_of(pipeline_group)
    rank = distributed.get_rank()
    stage = rank_in(pipeline_group) if pipeline_group is not None else rank
    return _monitor.Place(rank, distributed.get_world_size(), stage,
                          mates or list(range(distributed.get_world_size())))
