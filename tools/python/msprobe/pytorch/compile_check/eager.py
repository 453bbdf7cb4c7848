"""Outputs of a whole compiled graph against those of its operators, run one by one in the program's dtypes.

Both are held against float64, computed from the arguments of the graph with the bounds that add up along the way. Deep graphs have bounds
as large as their values: there the error that eager operators make tells how much noise is usual. Only what is further from
float64 than either allows is wrong; that compiled and eager differ is none.
"""
import torch

from msprobe.pytorch.compile_check import rules
from msprobe.pytorch.compile_check.bounded import SLACK, Bounded, NoRule, distance, unit
from msprobe.pytorch.compile_check.evaluation import Evaluation
from msprobe.pytorch.compile_check.repro import copied
from msprobe.pytorch.compile_check.rows import NOT_CHECKED, RIGHT, WRONG

# Random numbers of generated code: what the rules compute of the seeds that were drawn.
_FROM_SEEDS = frozenset(("inductor_lookup_seed", "inductor_random"))


class EagerCall:
    """Made before the compiled graph runs: it may change its arguments."""

    def __init__(self, graph, args):
        self._graph = graph
        self._args = copied(list(args))

    def compare(self, result, seeds, numbers, row):
        """Calls row(index, node, item, verdict, distance or None, reason) for each output."""
        graph = self._graph
        given = {node: value for node, value in zip(graph.placeholders, self._args) if isinstance(value, torch.Tensor)}
        exact = Evaluation(graph, {node: value.clone() for node, value in {**given, **seeds}.items()}, numbers)
        items = result if isinstance(result, (list, tuple)) else (result,)
        wanted = [(index, node, item) for index, (node, item) in enumerate(zip(graph.outputs, items))
                  if isinstance(node, torch.fx.Node) and isinstance(item, torch.Tensor) and item.numel()]
        eager = self._eager({**given, **seeds}, numbers, exact, {node for _, node, _ in wanted})
        for index, node, item in wanted:
            row(index, node, item, *self._judged(node, item, eager, exact))

    def _judged(self, node, item, eager, exact):
        other = eager.get(node)
        if not isinstance(other, torch.Tensor):
            return NOT_CHECKED, None, other or "its operators cannot be run one by one"
        if tuple(other.shape) != tuple(item.shape):
            return WRONG, None, "shape %s, eager %s" % (list(item.shape), list(other.shape))
        if not item.dtype.is_floating_point:
            same = torch.equal(item, other)
            return (RIGHT if same else NOT_CHECKED), None, "" if same else \
                "%d elements are not those of eager: decisions that rounding may turn" % int((item != other).sum())
        try:
            expected = exact.value(node)
        except NoRule as error:
            return NOT_CHECKED, None, str(error)
        far = distance(item, expected)
        off = (other.double() - expected.value).abs()
        off = off[torch.isfinite(off)]
        noise = float(off.max()) if off.numel() else 0.0
        if far.loose or far.bound == float("inf"):
            size = float(expected.value.abs().nan_to_num(0, 0, 0).max())
            usual = torch.full(expected.value.shape, rules.MEASURED_TIMES * (noise + unit(item.dtype) * size) / SLACK, dtype=torch.float64)
            far = distance(item, Bounded(expected.value, usual, expected.dtype))
        difference = float((item.double() - other.double()).abs().nan_to_num(0, 0, 0).max())
        return (RIGHT if far.ratio <= 1 else WRONG), far, "%.3g from eager, which is %.3g from float64" % (difference, noise)

    def _eager(self, values, numbers, exact, wanted):
        """{node: tensor, or why there is none} of the nodes wanted."""
        graph = self._graph
        values = dict(values)
        values.update(numbers)
        users = {node: len(node.users) for node in graph.nodes}
        for node in graph.nodes:
            if node in values:
                continue
            try:
                values[node] = self._value(node, values, exact)
            except Exception as error:
                values[node] = "%s: %s" % (node.name, str(error).split("\n")[0][:100])
            for item in node.all_input_nodes:
                users[item] -= 1
                if not users[item] and item not in wanted:
                    values.pop(item, None)
        return {node: values.get(node) for node in wanted}

    def _value(self, node, values, exact):
        if node.op == "get_attr":
            return self._graph.constants[node]
        if node.op != "call_function":
            raise NoRule("it is not given")
        failed = next((values[item] for item in node.all_input_nodes if isinstance(values.get(item), str)), None)
        if failed is not None:
            return failed
        if self._graph.is_random(node):
            raise NoRule(rules.RANDOM_NUMBERS)
        if rules.name_of(node.target) in _FROM_SEEDS:
            return exact.value(node).value.to(self._graph.dtype(node))
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda item: values[item])
        return node.target(*args, **kwargs)
