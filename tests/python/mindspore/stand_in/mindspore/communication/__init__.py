from mindspore.communication import comm_func

_rank = 0


class GlobalComm:
    INITED = False


def init(rank=0):
    global _rank
    _rank = rank
    GlobalComm.INITED = True


def get_rank():
    return _rank


def get_process_group_ranks(group="world"):
    return [0, 1]
