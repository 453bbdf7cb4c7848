"""Nodes of a graph computed from those whose values are known, in float64 with bounds."""
import heapq
import operator

import torch

from msprobe.pytorch.compile_check import rules
from msprobe.pytorch.compile_check.bounded import Bounded, NoRule


class Evaluation:
    """`known`: {node: tensor}, what a kernel is given. `numbers`: {node: int} of a graph with changing shapes.
    `shortcuts`: [(name, arguments, result)], operators that were computed already. `exact`: makes a Bounded of a tensor."""

    def __init__(self, graph, known, numbers, shortcuts=(), exact=Bounded.exact):
        self._exact = exact
        self._graph = graph
        self._given = dict(known)
        self._values = {}
        self._numbers = numbers
        self._known = frozenset(known)
        self._shortcuts = shortcuts
        self._failed = {}

    def reachable(self, allowed):
        """Nodes that can be computed from the known ones, in order. `allowed(node)`: whether a kernel may compute it."""
        graph = self._graph
        available, free = set(self._known), graph.free_nodes
        waiting = [graph.order[user] for node in self._known for user in node.users if user in graph.order]
        begin = min(waiting, default=len(graph.nodes))
        waiting += [place for place in graph.rootless if place > begin]
        heapq.heapify(waiting)
        found, last = [], -1
        while waiting:  # in order: what a node needs has been seen before it
            place = heapq.heappop(waiting)
            node = graph.nodes[place]
            if place == last or node in available or node in free or node.op != "call_function" or graph.is_functionalized(node):
                continue
            last = place
            if all(item in available or item in free or item in self._numbers or item is _shape_only(node)
                   for item in node.all_input_nodes) and allowed(node):
                available.add(node)
                found.append(node)
                for user in node.users:
                    if user in graph.order:
                        heapq.heappush(waiting, graph.order[user])
        return found

    @property
    def is_given(self):
        """Whether anything is known from the beginning."""
        return bool(self._known)

    def add(self, node, bounded):
        """One more that is known."""
        self._values[node] = bounded
        self._known |= {node}
        self._failed.clear()

    def value(self, node):
        """Bounded, a tuple of them, or a number. NoRule with the reason where it cannot be computed."""
        if node in self._values:
            return self._values[node]
        if node in self._given:
            self._values[node] = self._exact(self._given[node])
            return self._values[node]
        if node in self._failed:
            raise NoRule(self._failed[node])
        try:
            result = self._compute(node)
        except NoRule as error:
            self._failed[node] = str(error)
            raise
        self._values[node] = result
        return result

    def _compute(self, node):
        graph = self._graph
        if node in self._numbers:
            return self._numbers[node]
        if node.op == "get_attr":
            constant = graph.constants[node]
            if isinstance(constant, torch.Tensor):
                return Bounded.exact(constant.detach())
            raise NoRule("a part of the graph that is not a tensor")
        if node.op != "call_function":
            raise NoRule("%s is not among what this kernel is given" % node.name)
        args = [self._zeros(item) if item is _shape_only(node) and item not in self._values and item not in self._given else self._arguments(item) for item in node.args]
        kwargs = self._arguments(dict(node.kwargs))
        dtype = graph.dtype(node)
        if dtype is None:  # sizes and other numbers
            try:
                return node.target(*rules.mapped(args, lambda item: item.value), **rules.mapped(kwargs, lambda item: item.value))
            except Exception as error:
                raise NoRule("%s: %s" % (node.name, str(error).split("\n")[0][:80]))
        if node.target is operator.getitem:
            return args[0][args[1]]
        name = rules.name_of(rules.functional(node.target))
        for known_name, known_args, result in self._shortcuts:
            if name == known_name and _alike(args, known_args):
                return result
        return rules.apply(node.target, args, kwargs, dtype)

    @staticmethod
    def _zeros(node):
        value = node.meta["val"]
        if not all(type(size) is int for size in value.shape):
            raise NoRule("the shape of %s changes" % node.name)
        return Bounded.exact(torch.zeros(value.shape, dtype=value.dtype))

    def _arguments(self, item):
        if isinstance(item, torch.fx.Node):
            return self.value(item)
        if isinstance(item, (list, tuple)):
            return [self._arguments(part) for part in item]
        if isinstance(item, dict):
            return {key: self._arguments(part) for key, part in item.items()}
        if isinstance(item, slice):
            return slice(self._arguments(item.start), self._arguments(item.stop), self._arguments(item.step))
        return item

    def made_of(self, node):
        """The nodes that were computed on the way from what is known to this one, in order."""
        seen, waiting = set(), [node]
        while waiting:
            item = waiting.pop()
            if item in seen or item in self._known and item is not node or item.op != "call_function":
                continue
            seen.add(item)
            waiting.extend(item.all_input_nodes)
        return sorted(seen, key=self._graph.order.get)


def _shape_only(node):
    """The argument of which only the shape counts, or None."""
    position = rules.SHAPE_ONLY.get(rules.name_of(node.target))
    item = node.args[position] if position is not None and position < len(node.args) else None
    return item if isinstance(item, torch.fx.Node) else None


def _alike(args, others):
    """Whether two lists of arguments are the same numbers and tensors that are bit-equal."""
    if isinstance(args, Bounded) or isinstance(others, Bounded):
        return isinstance(args, Bounded) and isinstance(others, Bounded) and args.error is None and others.error is None and \
            args.dtype == others.dtype and args.value.shape == others.value.shape and (_is_same(args.value, others.value) or torch.equal(args.value, others.value))
    if isinstance(args, (list, tuple)) and isinstance(others, (list, tuple)):
        return len(args) == len(others) and all(_alike(one, other) for one, other in zip(args, others))
    return type(args) is type(others) and args == others


def _is_same(one, other):
    """Whether two tensors of one shape are the same memory."""
    return one.data_ptr() == other.data_ptr() and one.stride() == other.stride() and one.dtype == other.dtype
