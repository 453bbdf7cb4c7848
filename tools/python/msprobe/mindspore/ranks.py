"""Which of several processes this one is."""
import os


def rank():
    """This process's rank, or -1 when it is not known."""
    try:
        # Before communication is there, get_rank() is 0 in every process of some versions.
        from mindspore.communication import GlobalComm, get_rank
        if GlobalComm.INITED:
            return int(get_rank())
    except Exception:  # without a runtime for it
        pass
    try:
        if int(os.environ.get("RANK_SIZE", "1")) > 1:
            return int(os.environ.get("RANK_ID", "-1"))
    except ValueError:
        pass
    return -1
