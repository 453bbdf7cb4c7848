from mindspore.communication import comm_func

_rank = None


def init(rank=0):
    global _rank
    _rank = rank


def get_rank():
    if _rank is None:
        raise RuntimeError("the communication is not initialised")
    return _rank


def get_process_group_ranks(group="world"):
    return [0, 1]
