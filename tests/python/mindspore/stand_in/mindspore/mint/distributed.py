"""Collectives that work in their arguments, of a world of one process whose sums are doubled."""


class Handle:
    def __init__(self, finish):
        self._finish = finish

    def wait(self):
        self._finish()


class P2POp:
    def __init__(self, op, tensor, peer, group=None, tag=0):
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag


def all_reduce(tensor, op="sum", group=None, async_op=False):
    def finish():
        tensor.data = tensor.data * 2

    if async_op:
        return Handle(finish)
    finish()
    return None


def isend(tensor, dst=0, group=None, tag=0):
    return Handle(lambda: None)


def irecv(tensor, src=0, group=None, tag=0):
    def finish():
        tensor.data = tensor.data * 0 + 7

    return Handle(finish)


def batch_isend_irecv(operations):
    return [operation.op(operation.tensor, operation.peer) for operation in operations]
