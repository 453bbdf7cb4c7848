"""Which nodes of a graph the outputs of one kernel are, found by their values."""
import torch

from msprobe.pytorch.compile_check import rules
from msprobe.pytorch.compile_check.bounded import BEYOND, Bounded, NoRule, distance, is_surely_beyond


class Search:
    """Which nodes the outputs of one kernel are."""

    def __init__(self, graph, evaluation, matched):
        self._graph = graph
        self._evaluation = evaluation
        self._matched = matched
        self._reachable = []
        self._tried = {}  # (id(tensor), node): Distance
        self._judged = ()  # (tensor, what it was held against, Distance)
        self._reasons = {}
        self._not_computed = set()  # (id(tensor), node): that it is not known what the node would be

    def judged(self, item, expected, far):
        """What is known already."""
        self._judged = (item, expected, far)

    def _candidates(self, item):
        available = set(self._reachable)
        constants = [node for node in self._graph.free_nodes if node not in available and node.op == "call_function"]
        found = [node for node in self._reachable + constants if self._fits(node, item)]
        return sorted(found, key=lambda node: (is_view(node), not self._needed(node, available), self._graph.order[node]))

    def _needed(self, node, available):
        if node in self._graph.returned:
            return True
        waiting, seen = list(node.users), set()
        while waiting:
            user = waiting.pop()
            if user not in available or rules.name_of(user.target) in _STORED:
                return True
            if is_view(user) and user not in seen:
                if user in self._graph.returned:
                    return True
                seen.add(user)
                waiting.extend(user.users)
        return False

    def _fits(self, node, item):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype != item.dtype or rules.name_of(node.target) in _UNWRITTEN:
            return False
        sizes = list(value.shape)
        if not all(type(size) is int for size in sizes):
            return len(sizes) == 0 or item.numel() > 0
        count = 1
        for size in sizes:
            count *= size
        return count == item.numel()

    def match(self, left, allowed, found):
        """Calls found(name, item, nodes, distance) for outputs that are nodes, those of equal values together, the likeliest first;
        returns the other outputs. Nodes that others need are tried first; the rest only where none of them fits."""
        self._reachable = self._evaluation.reachable(allowed)
        available = set(self._reachable)
        rest = []
        for name, item in left:
            fitting, first = [], None
            candidates = self._candidates(item)
            for node in candidates:
                if fitting and (is_view(node) or not self._needed(node, available)):
                    break
                far = self.distance_to(node, item, True)
                if far is not None and far.ratio <= 1:
                    fitting.append((node, far))
            if not fitting:
                rest.append((name, item))
                continue
            first = next((pair for pair in fitting if pair[0] not in self._matched), fitting[0])
            value = self._evaluation.value(first[0]).value
            alike = [node for node, _ in fitting if node is not first[0] and _equal(self._evaluation.value(node).value, value)]
            found(name, item, [first[0]] + alike, first[1])
        return rest

    def distance_to(self, node, item, only_within=False):
        """None where the node cannot be computed, or has another shape. `only_within`: of what is beyond its bounds it need not be said how far."""
        key = (id(item), node)
        if key not in self._tried or self._tried[key] is BEYOND and not only_within:
            self._tried[key] = None
            try:
                expected = self._evaluation.value(node)
            except NoRule as error:
                self._reasons.setdefault(id(item), str(error))
                self._not_computed.add(key)
                return None
            if not isinstance(expected, Bounded) or expected.value.numel() != item.numel():
                return None
            if _sizes(expected.value) != _sizes(item) and not item.is_contiguous():
                return None
            if self._judged and self._judged[0] is item and self._judged[1] is expected:
                self._tried[key] = self._judged[2]
                return self._tried[key]
            shaped = item.reshape(expected.value.shape)
            self._tried[key] = BEYOND if only_within and is_surely_beyond(shaped, expected) else distance(shaped, expected, only_within)
        return self._tried[key]

    def take_random(self, left, taken):
        """Outputs that are made of random numbers: the first node of that kind that fits is taken to be it."""
        graph, rest = self._graph, []
        self._reachable = self._evaluation.reachable(lambda node: True)
        random = set()
        for node in graph.nodes:
            if graph.is_random(node) or any(item in random for item in node.all_input_nodes):
                random.add(node)
        for name, item in left:
            nodes = [node for node in graph.nodes if node in random and node not in self._matched and self._fits(node, item)
                     and not is_view(node) and (node in self._reachable or graph.is_random(node))
                     and self._needed(node, set(self._reachable))]
            if not nodes or not self._blocked(nodes[0]):
                rest.append((name, item))
                continue
            self._evaluation.add(nodes[0], Bounded.exact(item.reshape(static_shape(nodes[0]) or item.shape).clone()))
            taken(name, item, nodes[0])
            self._matched.add(nodes[0])
            self._tried.clear()
        return rest

    def _blocked(self, node):
        try:
            self._evaluation.value(node)
            return False
        except NoRule as error:
            return str(error) == rules.RANDOM_NUMBERS

    def nearest(self, item, fused):
        """(node, distance) of the node that this output should be: one that others need, that is in no other buffer. `fused(node)`:
        whether the kernel's name says that it computes a node. Constants are asked of kernels that are given nothing and of parts
        of a larger buffer, views of kernels that only move elements: others have them in no buffer."""
        available = set(self._evaluation.reachable(fused))
        computed = [node for node in available if not self._graph.is_move(node) and node not in self._graph.free_nodes]
        constants = not self._evaluation.is_given or is_part(item)
        views = not computed
        best = None
        for node in self._candidates(item):
            if (id(item), node) in self._not_computed:
                return None  # a node that cannot be computed may be it
            is_constant = node in self._graph.free_nodes
            if not self._needed(node, available) or is_constant and not constants or is_view(node) and not is_constant and not views or \
                    node in self._matched and not (is_constant and is_part(item)):
                continue
            far = self.distance_to(node, item)
            if far is None:
                continue
            order = (bool(fused(node)), far.share, -far.ratio)
            if best is None or order > best[0]:
                best = (order, node, far)
        return None if best is None else best[1:]

    def spoilt_copy(self, item, known, fused):
        """(node, distance) where an output has a good part of the elements of a node in their places, without being it: a copy in another layout of
        what the kernel was given, or of what it left elsewhere. Where the kernel can make nothing else of this size, the nearest of what it was given.
        None for other values."""
        makes = [node for node in self._evaluation.reachable(fused) if self._fits(node, item) and not self._graph.is_move(node)]
        best = None
        for node in list(known) + [node for node in self._reachable if node in self._matched and not is_view(node)]:
            try:
                expected = self._evaluation.value(node)
            except NoRule:
                continue
            if not isinstance(expected, Bounded) or node.meta["val"].dtype != item.dtype or _sizes(expected.value) != _sizes(item):
                continue
            value = expected.value.reshape(item.shape).to(item.dtype)
            there = value != 0
            same, count = int((there & (value == item)).sum()), int(there.sum())
            if (same > max(1, _LEAST_COPIED * count) or not makes) and (best is None or same > best[0]):
                best = (same, node)
        far = self.distance_to(best[1], item) if best is not None else None
        return (best[1], far) if far is not None and far.ratio > 1 else None

    def covers_more(self, item, found, kernel_name):
        """(node, distance) where the only output of a kernel must be another node than `found`: one whose value it does not have, and that is made
        of more of the operators in the kernel's name. Masks and constants are easily alike; None for other values."""
        if item.dtype.is_floating_point and self._evaluation.is_given:
            return None
        graph = self._graph

        def covered(node):
            return {graph.ops[part] for part in self._evaluation.made_of(node) if graph.ops.get(part) and graph.ops[part] in kernel_name}

        least = covered(found)
        self._reachable = self._evaluation.reachable(graph.fused(kernel_name))
        for node in self._candidates(item):
            if node is not found and least < covered(node):
                far = self.distance_to(node, item)
                if far is not None and far.ratio > 1:
                    return node, far
        return None

    def beyond(self, item, found, fused):
        """(node, distance) of a node that others need and that the kernel may compute of `found`, where none needs `found` itself: a kernel that
        lost its last operators leaves an intermediate of its own, exactly. None where there is none."""
        available = set(self._reachable)
        if self._needed(found, available):
            return None
        for node in self._evaluation.reachable(fused):
            if node is not found and node not in self._matched and not is_view(node) and self._fits(node, item) and \
                    self._needed(node, available) and found in self._evaluation.made_of(node):
                far = self.distance_to(node, item)
                return (node, far) if far is not None and far.ratio > 1 else None
        return None

    def by_structure(self, item, allowed, base):
        self._reachable = self._evaluation.reachable(allowed)
        for node in self._reachable:
            if node not in self._matched and self._fits(node, item) and rules.name_of(node.target) == base:
                return node
        return None

    def reason(self, item):
        return self._reasons.get(id(item), "")


# Whose arguments are written where they end up: part by part into one buffer, or into an argument of the graph.
_STORED = frozenset(("cat", "stack", "hstack", "vstack", "copy_"))
_LEAST_COPIED = 0.25  # of the elements that are not zero
_UNWRITTEN = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"))  # of no value
_VIEWS = frozenset("""view _unsafe_view reshape permute transpose t expand unsqueeze squeeze slice select alias detach split
split_with_sizes unbind diagonal as_strided lift_fresh_copy""".split())


def is_view(node):
    return node.op == "call_function" and rules.name_of(node.target) in _VIEWS and isinstance(node.meta.get("val"), torch.Tensor)


def is_part(tensor):
    """Whether it lies in a larger buffer, as parts of a concatenation do."""
    return tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()


def _sizes(tensor):
    """Without those of 1, which order no elements."""
    return [size for size in tensor.shape if size != 1]


def static_shape(node):
    sizes = list(node.meta["val"].shape)
    return sizes if all(type(size) is int for size in sizes) else None


def _equal(one, other):
    return one.numel() == other.numel() and torch.equal(one.reshape(-1), other.reshape(-1))
