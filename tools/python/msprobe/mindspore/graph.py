"""How the autograd graph of MindSpore is read: Python can tell its nodes apart from 2.10 on."""
import mindspore
from mindspore import ops

from msprobe._intercept import gradients, runtime
from msprobe.mindspore import values


def is_readable():
    """Whether this MindSpore shows the nodes of its graph, and which is which."""
    node = getattr(mindspore._c_expression, "BackwardNodePy", None)
    return hasattr(mindspore.Tensor, "_grad_node") and hasattr(node, "_unique_id")


class _Node:
    """One node. MindSpore makes an object of its own for it each time that it is asked."""

    __slots__ = ("node", "key")

    def __init__(self, node):
        self.node = node  # held: its key stays its own
        self.key = node._unique_id()

    def __eq__(self, other):
        return other is not None and self.key == other.key

    def __hash__(self):
        return self.key

    def is_leaf(self):
        return self.node.is_leaf()

    def register_hook(self, hook):
        return self.node.register_hook(hook)

    def register_prehook(self, hook):
        return self.node.register_prehook(hook)


class _Numbers:
    """Nodes are numbered as they are made; the number of the next one cannot be asked for. Those that were
    met are all that is known of it."""

    last = -1

    @classmethod
    def see(cls, node):
        if not node.is_leaf():
            cls.last = max(cls.last, node._sequence_nr())


class Reader(gradients.GraphReader):
    @staticmethod
    def edge(tensor):
        node = tensor._grad_node
        if node is None:
            return None, 0
        _Numbers.see(node)
        return _Node(node), tensor._output_index

    @staticmethod
    def is_leaf(node):
        return node is None or node.is_leaf()

    @staticmethod
    def watch_leaf(tensor, hook):
        def on_gradient(gradient):
            hook((gradient,))
            return gradient

        return tensor, tensor.register_hook(on_gradient)

    @staticmethod
    def sequence_number():
        return _Numbers.last + 1

    @staticmethod
    def walk(results, targets, since):
        return _Walk(results, targets, since).run()

    @staticmethod
    def plus(known, gradient):
        with runtime.own_work():
            return ops.add(gradient, 0) if known is None else ops.add(known, gradient)

    @staticmethod
    def minus(gradient, inside):
        with runtime.own_work():
            if (values.array_of(gradient) == values.array_of(inside)).all():
                return None
            return ops.sub(gradient, inside)


class _Walk:
    """From what came out of a call back to what went in, as native/graph_walk.h does for PyTorch's."""

    def __init__(self, results, targets, since):
        self._since = since
        self._ends = {node for node, _, _ in targets if node is not None}
        self._targets = _by_edge(targets)
        self._results = _by_edge(results)
        self._seen = set()
        self._todo = []
        for node, _, _ in results:
            self._push(node)

    def _push(self, node):
        if node in self._ends or node in self._seen:
            return
        self._seen.add(node)
        if not node.is_leaf() and node.node._sequence_nr() >= self._since:
            self._todo.append(node)

    def run(self):
        found = []
        for node in self._todo:  # it grows meanwhile
            if len(self._seen) > gradients.MOST_NODES:
                return found, False
            ways, inner_ways = [], []
            for position, (to, number) in enumerate(node.node.next_functions):
                if to is None:
                    continue
                to = _Node(to)
                if (to, number) in self._targets:
                    ways.append((position, self._targets[to, number]))
                    continue
                if (to, number) in self._results:
                    inner_ways.append((position, self._results[to, number]))
                self._push(to)
            if ways or inner_ways:
                found.append((node, ways, inner_ways))
        return found, True


def _by_edge(edges):
    """{(node, number): place}, the first where there are several."""
    found = {}
    for place, (node, number, _) in enumerate(edges):
        found.setdefault((node, number), place)
    return found
