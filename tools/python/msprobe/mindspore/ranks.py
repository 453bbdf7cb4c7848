"""Which of several processes this one is."""
import os


def rank():
    """This process's rank, or -1 when it is not known."""
    try:
        from mindspore.communication import get_rank
        return int(get_rank())
    except Exception:  # not initialised, or without a runtime for it
        pass
    try:
        if int(os.environ.get("RANK_SIZE", "1")) > 1:
            return int(os.environ.get("RANK_ID", "-1"))
    except ValueError:
        pass
    return -1
