"""Graphs of backends that generate no code: eager and aot_eager run a graph operator by operator.

Such a graph is interpreted while a call of it is looked at: the same operators in the same order, each of them held against its rule in
float64, computed from what it was given. What aot_eager runs has one operator per node; a node of eager's graph is a function of the program,
of which every operator below it gets a row, with the node, its module and its line of code. The backward pass of eager is autograd's own and is
no graph.
"""
import functools

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from msprobe.pytorch.compile_check import rules
from msprobe.pytorch.compile_check.bounded import Bounded
from msprobe.pytorch.compile_check.graphs import code_of, module_of
from msprobe.pytorch.compile_check.operators import PLAIN, bounded_arguments, expected_of, first_dtype, judged, tensors_in, written_arguments
from msprobe.pytorch.compile_check.rows import NOT_CHECKED

PLACE = "torch._dynamo.backends.debugging"


class NodeGraph:
    """One graph of one compilation, as graphs.Graph to whoever counts its calls."""

    def __init__(self, name, gm, inputs):
        self.name = name
        self.gm = gm
        self.calls = 0
        self.shapes = set()
        self.has_numbers = any(not isinstance(item, torch.Tensor) for item in inputs)


class CheckedNodes(torch.fx.Interpreter):
    """One call. `rows`, `budget`, `record`: as calls.CheckedCall has them."""

    def __init__(self, graph, rows, budget, record=None):
        super().__init__(graph.gm)
        self.extra_traceback = False  # an error of the program stays what it is
        self._graph = graph
        self._rows = rows
        self._budget = budget
        self._record = record
        self._node = None
        self._count = 0

    def run_node(self, n):
        self._node, self._count = n, 0
        return super().run_node(n)

    def call(self, args, boxed):
        if self._record is not None:
            self._safely(self._record_arguments, args)
        with _Operators(self):
            return self.boxed_run(args) if boxed else self.run(*args)

    def _record_arguments(self, args):
        placeholders = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        for node, item in zip(placeholders, args):
            if isinstance(item, torch.Tensor):
                self._node = node
                self._record(self._graph.name, node.name, item)

    def operator(self, function, args, kwargs):
        given = self._safely(self._before, function, args, kwargs)
        result = function(*args, **kwargs)
        if given is not None:
            self._safely(self._after, function, given, result)
        return result

    def _safely(self, function, *arguments):
        """The training goes on, whatever happens here."""
        try:
            with torch.no_grad(), torch._C._DisableTorchDispatch():
                return function(*arguments)
        except Exception as error:
            self._rows.add(self._graph.name, "graph", self._node.name, NOT_CHECKED,
                           reason="%s: %s" % (type(error).__name__, str(error).split("\n")[0][:120]))
            return None

    def _before(self, function, args, kwargs):
        written = written_arguments(function, args, kwargs)
        given = tensors_in((args, kwargs))
        copied = [item for item in given if any(item.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() for other in written)]
        return bounded_arguments(Bounded.exact, args, kwargs, copied), written

    def _after(self, function, before, result):
        (args, kwargs), written = before
        outputs = [item for item in (written or tensors_in(result)) if item.numel()]
        name, node = rules.name_of(function), self._node
        reason = self._budget.refuses(sum(item.numel() for item in outputs) * 8 * 4)
        if name in rules.RANDOM:
            reason = "random numbers, taken as they are"
        expected = None
        if not reason:
            expected, reason = expected_of(function, args, kwargs, first_dtype(outputs))
        for index, item in enumerate(outputs):
            label = node.name if not self._count else "%s.%d" % (node.name, self._count)
            self._count += 1
            verdict, far, why = judged(item, expected[index] if expected and index < len(expected) else None, function, reason)
            self._rows.add(self._graph.name, "aten.%s" % name, label, verdict, far.ratio if far else 0.0, nodes=node.name, module=module_of(node),
                           code=code_of(node), dtype=str(item.dtype).replace("torch.", ""), error="%.6g" % far.error if far else "",
                           bound="%.6g" % far.bound if far else "", reason=why)
            if self._record is not None:
                self._record(self._graph.name, label, item)


class _Operators(TorchDispatchMode):
    def __init__(self, nodes):
        super().__init__()
        self._nodes = nodes

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if isinstance(function, torch._ops.OpOverload) and rules.name_of(function) not in PLAIN and function.namespace != "prim":
            return self._nodes.operator(function, args, kwargs)
        return function(*args, **kwargs)


def eager(backend, watched):
    """The backend eager, with watched(gm, inputs, direction, function, boxed) in place of the function that it makes of a graph."""
    @functools.wraps(backend)
    def compile_graph(gm, inputs, *args, **kwargs):
        function = backend(gm, inputs, *args, **kwargs)
        trains = torch.is_grad_enabled() and any(isinstance(item, torch.Tensor) and item.requires_grad for item in inputs)
        return watched(gm, inputs, "forward" if trains else "inference", function, False)
    return compile_graph


def boxed_nop(compiler, watched):
    """The same of what aot_eager and its kin make of both halves of a graph."""
    @functools.wraps(compiler)
    def compile_graph(gm, inputs, *args, **kwargs):
        names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
        direction = next((direction for start, direction in (("tangents_", "backward"), ("primals_", "forward"))
                          if any(name.startswith(start) for name in names)), "inference")
        return watched(gm, inputs, direction, compiler(gm, inputs, *args, **kwargs), True)
    return compile_graph
