"""Collectives that give their result back."""


class CommHandle:
    def __init__(self, finish):
        self._finish = finish

    def wait(self):
        self._finish()


def all_reduce(tensor, op="sum", group="world", async_op=False):
    from mindspore._tensor import Tensor
    result = Tensor(tensor.data * 0)

    def finish():
        result.data = tensor.data * 2

    if async_op:
        return result, CommHandle(finish)
    finish()
    return result, None
