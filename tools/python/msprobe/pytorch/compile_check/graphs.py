"""What is known of a compiled graph: its operators as they were before code was generated, where they stand in the user's model and
code, and the module of generated code that runs.

The graph is a copy of what AOTAutograd handed to inductor, made in every process, also where the code itself comes from
a cache. So nothing depends on what inductor remembers of the way from nodes to kernels.
"""
import operator
import os
import re

import torch

from msprobe.pytorch.compile_check.rules import MOVES, RANDOM, SHAPE_ONLY, name_of, squared_deviations

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_LOCAL = re.compile(r"^[LG]\['[^']*'\]")
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
# `cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''`
_KERNEL = re.compile(r"^(\w+) = async_compile\.(\w+)\(", re.MULTILINE)
_SIGNATURE = re.compile(r"extern \"C\"[^(]*?\(([^)]*)\)", re.DOTALL)
_FUNCTIONALIZED = ("auto_functionalized", "auto_functionalized_v2")
_PARAMETER = re.compile(r"(const\s+)?([\w:<>]+)\s*(\*?)\s*(?:__restrict__\s*)?(\w+)\s*$")


def module_of(node):
    """The path of the innermost module, "layers.0.mlp"; "" for the outermost one."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    entry = list(stack.values())[-1] if stack else None
    path = entry[0] if isinstance(entry, tuple) else entry or ""
    path = _LOCAL.sub("", str(path))
    path = re.sub(r"\._modules\['([^']*)'\]", r".\1", path)
    path = re.sub(r"\[['\"]?([^'\"\]]*)['\"]?\]", r".\1", path)
    path = path.lstrip(".")
    return path[len("self."):] if path.startswith("self.") else "" if path == "self" else path


def code_of(node):
    """`file.py:LINE` of the innermost frame outside of PyTorch, or ""."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    for path, line in reversed(frames):
        if not path.startswith(_TORCH) and not path.startswith("<"):
            return "%s:%s" % (os.path.basename(path), line)
    return ""


def _original(node):
    """Names of the operator that a node was decomposed from."""
    operator = node.meta.get("original_aten")
    return name_of(operator) if operator is not None else name_of(node.target)


class Kernel:
    """A generated function. `reads_only`: for each tensor among its arguments whether it is only read. `source`: its text."""

    __slots__ = ("name", "kind", "reads_only", "source")

    def __init__(self, name, kind, reads_only, source):
        self.name = name
        self.kind = kind
        self.reads_only = reads_only
        self.source = source


def kernels_of(text):
    """The kernels of a module of generated code, by name."""
    found = {}
    starts = [(match.start(), match.group(1), match.group(2)) for match in _KERNEL.finditer(text)]
    for index, (start, name, kind) in enumerate(starts):
        end = starts[index + 1][0] if index + 1 < len(starts) else text.find("async_compile.wait", start)
        source = text[start:end]
        reads_only = None
        if kind.startswith("cpp"):
            signature = _SIGNATURE.search(source)
            parameters = [_PARAMETER.search(part.strip()) for part in signature.group(1).split(",")] if signature else []
            if parameters and all(parameters):
                reads_only = [bool(part.group(1)) or not part.group(3) for part in parameters]
        found[name] = Kernel(name, kind, reads_only, source)
    return found


class Graph:
    """One graph of one compilation. `name`: "0/1 backward"."""

    def __init__(self, name, gm):
        self.name = name
        self.calls = 0
        self.shapes = set()  # numbers among its arguments with which it was checked
        self._copy(gm)
        self.order = {node: index for index, node in enumerate(self.nodes)}
        self.ops = {node: _original(node) for node in self.nodes if node.op == "call_function"}
        self.free_nodes = self._free()
        # Places of nodes that wait for no tensor: random ones, those of numbers, and those that need only a shape.
        self.rootless = [self.order[node] for node in self.nodes if node.op == "call_function" and node not in self.free_nodes and
                         all(item in self.free_nodes or self._is_number(item) or name_of(node.target) in SHAPE_ONLY for item in node.all_input_nodes)]
        self.has_numbers = any(not isinstance(node.meta.get("val"), torch.Tensor) for node in self.placeholders)
        self.returned = {item for item in self.outputs if isinstance(item, torch.fx.Node)}

    def compiled(self, compiled):
        """What inductor made of it."""
        self.module = _module_of_code(compiled)
        self.text = compiled.source_code or ""
        self.kernels = kernels_of(self.text)

    def _copy(self, gm):
        graph = torch.fx.Graph()
        known = {}
        result = graph.graph_copy(gm.graph, known)
        self.owner = gm
        self.graph = graph
        result = _with_means_apart(graph, _with_moments_apart(graph, result))
        self.nodes = list(graph.nodes)
        self.placeholders = [node for node in self.nodes if node.op == "placeholder"]
        self.constants = {}
        for node in self.nodes:
            if node.op == "get_attr":
                value = gm
                for part in node.target.split("."):
                    value = getattr(value, part)
                self.constants[node] = value
        if isinstance(result, tuple) and len(result) == 2 and not isinstance(result, torch.fx.Node) and \
                (result[1] is None or not isinstance(result[1], torch.fx.Node)) and isinstance(result[0], (list, tuple)):
            result = result[0]  # with its type
        self.outputs = tuple(result) if isinstance(result, (list, tuple)) else (result,)

    def _free(self):
        """Nodes that need nothing of what a graph is given: constants, and what is made of numbers."""
        free = set()
        for node in self.nodes:
            if node.op == "get_attr" or node.op == "call_function" and not self.is_random(node) and \
                    all(item in free for item in node.all_input_nodes):
                free.add(node)
        return free

    @staticmethod
    def _is_number(node):
        return node.op == "placeholder" and not isinstance(node.meta.get("val"), torch.Tensor)

    def dtype(self, node):
        """Of a node's value, or of the first floating-point one of several; None for other values."""
        value = node.meta.get("val")
        if isinstance(value, (list, tuple)):
            tensors = [item for item in value if isinstance(item, torch.Tensor)]
            floating = [item.dtype for item in tensors if item.dtype.is_floating_point]
            return floating[0] if floating else tensors[0].dtype if tensors else None
        return value.dtype if isinstance(value, torch.Tensor) else None

    def is_random(self, node):
        return node.op == "call_function" and name_of(node.target) in RANDOM

    def changed_by(self, function):
        """[(node, [the nodes of what it returns], {name of an argument: the node of the buffer that it lies in, as it is left})] of the calls of an
        operator that changes its arguments, in order; None for what nothing needs. A graph has such a call as a higher-order operator that returns
        the changed buffers behind the results."""
        returned = max(len(function._schema.returns), 1)  # None has a place, too
        names = [argument.name for argument in function._schema.arguments if argument.alias_info is not None and argument.alias_info.is_write]
        found = []
        for node in self.nodes:
            if not self.is_functionalized(node) or node.args[0] is not function:
                continue
            parts = {user.args[1]: user for user in node.users if user.target is operator.getitem}
            places = {name: node.kwargs.get("_%s_base_index" % name, index) for index, name in enumerate(names)}
            found.append((node, [parts.get(index) for index in range(returned)],
                          {name: parts.get(returned + place) for name, place in places.items() if isinstance(place, int)}))
        return found

    @staticmethod
    def is_functionalized(node):
        """Whether it is the call of an operator that changes its arguments, which no generated kernel computes."""
        return node.op == "call_function" and str(node.target) in _FUNCTIONALIZED

    def is_move(self, node):
        return node.op == "call_function" and name_of(node.target) in MOVES

    def fused(self, kernel_name):
        """Whether a node may be in a kernel of that name: generated names list the operators that were fused."""
        def inside(node):
            return self.ops.get(node, "") in kernel_name or name_of(node.target) in kernel_name or self.is_move(node) or \
                not node.all_input_nodes
        return inside


def _with_moments_apart(graph, result):
    """Variances as quotients of sums of squared deviations, which generated code may keep in a buffer of their own; and means.
    `result`: nodes of the graph that are returned."""
    replaced, made, split = {}, [], []
    for node in list(graph.nodes):
        if node.op != "call_function" or name_of(node.target) not in ("var_mean", "var") or "correction" not in str(node.target):
            continue
        tensor = node.args[0]
        value = node.meta.get("val")
        first = value[0] if isinstance(value, (tuple, list)) else value
        shape = getattr(tensor, "meta", {}).get("val")
        if not isinstance(first, torch.Tensor) or not isinstance(shape, torch.Tensor) or not all(type(size) is int for size in shape.shape):
            continue
        dims = node.args[1] if len(node.args) > 1 else None
        dims = [dim % shape.dim() for dim in dims] if dims else list(range(shape.dim()))
        keepdim = node.kwargs.get("keepdim", False)
        correction = node.kwargs.get("correction", 1)
        count = 1
        for dim in dims:
            count *= shape.shape[dim]
        with graph.inserting_before(node):
            deviations = graph.create_node("call_function", squared_deviations, (tensor, dims, keepdim), name=node.name + "_squares")
            variance = graph.create_node("call_function", torch.ops.aten.div.Tensor, (deviations, max(count - (1 if correction is None else correction), 0)))
            mean = graph.create_node("call_function", torch.ops.aten.mean.dim, (tensor, dims, keepdim))
        for new in (deviations, variance, mean):
            new.meta = dict(node.meta, val=first)
        made += [mean, variance]
        if isinstance(value, (tuple, list)):
            split.append(node)
            for user in list(node.users):
                replaced[user] = (variance, mean)[user.args[1]]
        else:
            replaced[node] = variance
    for old, new in replaced.items():
        old.replace_all_uses_with(new)
        name = old.name
        graph.erase_node(old)
        new.name = name
    returned = set(replaced.values()) | set(_nodes_in(result))
    for node in made + split:
        if not node.users and node not in returned:
            graph.erase_node(node)
    return torch.fx.node.map_aggregate(result, lambda item: replaced.get(item, item) if isinstance(item, torch.fx.Node) else item)


def _with_means_apart(graph, result):
    """Means as quotients of sums, for the same reason."""
    replaced = {}
    for node in list(graph.nodes):
        shape = getattr(node.args[0], "meta", {}).get("val") if node.op == "call_function" and name_of(node.target) == "mean" else None
        if not isinstance(shape, torch.Tensor) or shape.dtype not in (torch.float32, torch.float64) or not shape.dim() or \
                not all(type(size) is int for size in shape.shape) or node.kwargs.get("dtype") is not None:
            continue
        dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        dims = [dim % shape.dim() for dim in ([dims] if isinstance(dims, int) else dims)] if dims else list(range(shape.dim()))
        keepdim = node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False)
        count = 1
        for dim in dims:
            count *= shape.shape[dim]
        with graph.inserting_before(node):
            total = graph.create_node("call_function", torch.ops.aten.sum.dim_IntList, (node.args[0], dims, keepdim), name=node.name + "_sum")
            mean = graph.create_node("call_function", torch.ops.aten.div.Tensor, (total, count))
        total.meta, mean.meta = dict(node.meta), dict(node.meta)
        replaced[node] = mean
        node.replace_all_uses_with(mean)
        name = node.name
        graph.erase_node(node)
        mean.name = name
    return torch.fx.node.map_aggregate(result, lambda item: replaced.get(item, item) if isinstance(item, torch.fx.Node) else item)


def _nodes_in(result):
    found = []
    torch.fx.node.map_aggregate(result, lambda item: found.append(item) if isinstance(item, torch.fx.Node) else item)
    return found


def _module_of_code(compiled):
    """The module of generated code whose function runs."""
    seen = []
    function = compiled.current_callable
    while function is not None and function not in seen:
        seen.append(function)
        function = getattr(function, "__func__", function)
        names = getattr(function, "__globals__", {})
        if "async_compile" in names or "extern_kernels" in names:
            return names
        cells = [cell.cell_contents for cell in function.__closure__ or ()] if hasattr(function, "__closure__") else []
        inner = [cell for cell in cells if callable(cell)]
        function = getattr(function, "__wrapped__", inner[0] if inner else None)
    return None
