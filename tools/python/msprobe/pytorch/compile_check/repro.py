"""A kernel alone: a folder that runs one call of it again and judges what comes out as it was judged here.

    0_0_forward.cpp_fused_gelu_0/
        kernel.py     the generated source, as it was compiled, or the operator of a library that the generated code called
        tensors.pt    what the call was given, and for each output its float64 value and bound (torch, weights only)
        nodes.txt     the operators of the graph that each output was held against, with module and line of code
        verdict.csv   the rows of compile_check.csv
        run.py        alone.py: runs kernel.py, and says right or wrong

run.py needs PyTorch and nothing of msprobe. Inputs are copied before a kernel runs, with the memory that they share.
"""
import csv
import os
import re
import shutil

import torch

from msprobe.pytorch.compile_check.bounded import SLACK, Bounded
from msprobe.pytorch.compile_check.graphs import code_of, module_of
from msprobe.pytorch.compile_check.rows import COLUMNS, WRONG

_MOST_FOLDERS = 8  # where no kernel was chosen
_UNUSUAL = re.compile(r"[^\w.+-]+")

_KERNEL = '''import torch
from torch._inductor.async_compile import AsyncCompile

async_compile = AsyncCompile()

%s
async_compile.wait(globals())
call = %s
'''
_OPERATOR = '''import torch

call = torch.ops.%s.%s.%s
'''



class Extract:
    """One call of one kernel that may be written. `call`: the source of kernel.py's call. `outputs`: what is known of each."""

    __slots__ = ("graph", "kernel", "source", "args", "kwargs", "places", "outputs", "nodes", "rows")

    def __init__(self, graph, kernel, source, args, kwargs):
        self.graph = graph
        self.kernel = kernel
        self.source = source
        storages = {}
        self.args = copied(args, storages)
        self.kwargs = copied(kwargs, storages)
        self.places = {}  # name of an output: where it lies among arguments and results
        self.outputs = {}  # name: (float64 value, bound)
        self.nodes = {}
        self.rows = {}

    def expects(self, name, expected, nodes):
        if not isinstance(expected, Bounded):
            return
        value = expected.value
        bound = torch.zeros(value.shape, dtype=torch.float64) if expected.error is None else \
            expected.error.broadcast_to(value.shape).double() * (SLACK if expected.floating() else 1.0)
        self.outputs[name] = (value.clone(), bound.clone())
        self.nodes[name] = nodes

    @property
    def is_wrong(self):
        return any(row["verdict"] == WRONG for row in self.rows.values())


class Folders:
    """`path`: the folder of all. `chosen`: names of kernels that are written whatever their verdict; None: wrong ones only."""

    def __init__(self, path, chosen=None):
        self._path = path
        self._chosen = chosen
        self._written = {}

    def wants(self, extract):
        return extract.is_wrong or self._chosen is not None and extract.kernel in self._chosen

    def write(self, extract):
        """The first call that is wrong, or the first one."""
        key = (extract.graph, extract.kernel)
        if self._written.get(key, -1) >= int(extract.is_wrong) or \
                key not in self._written and self._chosen is None and len(self._written) >= _MOST_FOLDERS:
            return
        self._written[key] = int(extract.is_wrong)
        folder = os.path.join(self._path, _UNUSUAL.sub("_", extract.graph) + "." + _UNUSUAL.sub("_", extract.kernel)[:100])
        os.makedirs(folder, exist_ok=True)
        outputs = [{"name": name, "place": extract.places[name], "value": value, "bound": bound}
                   for name, (value, bound) in extract.outputs.items() if name in extract.places]
        torch.save({"args": extract.args, "kwargs": extract.kwargs, "outputs": outputs}, os.path.join(folder, "tensors.pt"))
        shutil.copyfile(os.path.join(os.path.dirname(os.path.abspath(__file__)), "alone.py"), os.path.join(folder, "run.py"))
        for name, text in (("kernel.py", extract.source), ("nodes.txt", _described(extract))):
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        with open(os.path.join(folder, "verdict.csv"), "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(extract.rows.values())


def source_of_kernel(kernel):
    """kernel.py of a generated kernel; None where it does not run by itself."""
    return _KERNEL % (kernel.source.rstrip(), kernel.name) if kernel.kind.startswith("cpp") else None


def source_of_operator(function):
    return _OPERATOR % (function.namespace, function._opname, function._overloadname)


def _described(extract):
    lines = []
    for name, nodes in extract.nodes.items():
        lines.append("%s:" % name)
        for node in nodes:
            place = ", ".join(text for text in (module_of(node), code_of(node)) if text)
            lines.append("    %s%s" % (node.format_node() or node.name, "   # " + place if place else ""))
    return "\n".join(lines) + "\n"


def place_of(tensor, args, kwargs, results=()):
    """Where a tensor lies, for run.py; None where it is none of them."""
    for kind, items in (("args", enumerate(args)), ("kwargs", kwargs.items()), ("result", enumerate(results))):
        for key, item in items:
            if item is tensor:
                return ["%s:%s" % (kind, key)]
            if isinstance(item, (list, tuple)):
                for index, part in enumerate(item):
                    if part is tensor:
                        return ["%s:%s" % (kind, key), "in:%d" % index]
    return None


def copied(item, storages=None):
    """Tensors of (nested) arguments copied, with the memory that they share."""
    storages = {} if storages is None else storages
    if isinstance(item, torch.Tensor):
        key = item.untyped_storage().data_ptr()
        if key not in storages:
            storages[key] = item.untyped_storage().clone()
        return torch.empty(0, dtype=item.dtype, device=item.device).set_(storages[key], item.storage_offset(), item.size(), item.stride())
    if isinstance(item, (list, tuple)):
        return [copied(part, storages) for part in item]
    if isinstance(item, dict):
        return {key: copied(part, storages) for key, part in item.items()}
    return item
