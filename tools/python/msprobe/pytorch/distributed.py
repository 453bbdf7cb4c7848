"""Which of several processes this one is, and who belongs to its groups. Nothing is imported here that the script has not loaded, and
no other rank is asked: all of it is known in this process."""
import os
import sys


def _from_environment(name, otherwise):
    try:
        return int(os.environ.get(name, otherwise))
    except ValueError:
        return otherwise


def initialised():
    """torch.distributed, or None while there is no process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed
    return None


def rank():
    """This process's rank: of torch.distributed once it is initialised, before that of the launcher
    when there are several processes, else -1."""
    distributed = initialised()
    if distributed is not None:
        return distributed.get_rank()
    return _from_environment("RANK", -1) if _from_environment("WORLD_SIZE", 1) > 1 else -1


def world_size():
    """How many processes there are, this one included."""
    distributed = initialised()
    return distributed.get_world_size() if distributed is not None else max(_from_environment("WORLD_SIZE", 1), 1)


def ranks_of(group):
    """The global ranks of a process group in their order in it; None where there are none."""
    distributed = initialised()
    if distributed is None or group is None:
        return None
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    member = getattr(distributed, "GroupMember", None)
    if group is getattr(member, "NON_GROUP_MEMBER", None):
        return None
    if group is getattr(member, "WORLD", object()):
        return list(range(distributed.get_world_size()))
    if hasattr(c10d, "get_process_group_ranks"):
        return list(c10d.get_process_group_ranks(group))
    return sorted(c10d._pg_group_ranks[group])


def groups():
    """(ranks, description) of every process group that this process made and is in, in that order. The description is empty before
    PyTorch 2.3."""
    if initialised() is None:
        return []
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    known = getattr(getattr(c10d, "_world", None), "pg_map", None)
    if known is None:
        known = getattr(c10d, "_pg_map", {})
    found = []
    for group in list(known):
        try:
            ranks = ranks_of(group)
            if ranks is not None:
                found.append((ranks, str(getattr(group, "group_desc", ""))))
        except Exception:  # one that has been destroyed
            continue
    return found
