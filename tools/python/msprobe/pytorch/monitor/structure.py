"""print_struct and stack_info: what modules take and give, and where they are called from.

Both are written after the first measured step; the training goes on.
"""
import json

import torch

from msprobe import _native
from msprobe._files import csv_row
from msprobe.pytorch.monitor import stacks


def _describe_one(value):
    if isinstance(value, torch.Tensor):
        return "size=%s, dtype=%s" % (tuple(value.shape), value.dtype)
    return str(type(value))


def _describe(value):
    if isinstance(value, torch.Tensor):
        return {"config": "tensor", "tensor": _describe_one(value)}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        described = {"config": "%s[%d]" % (kind, len(value))}
        described.update((str(index), _describe_one(item)) for index, item in enumerate(value))
        return described
    return {"config": str(type(value))}


class ModuleStructure:
    """module_struct.json."""

    wants_gradients = True

    def __init__(self, monitor):
        self._monitor = monitor
        self._modules = {}
        self._written = False

    def forward(self, known, args, kwargs, output):
        if self._written:
            return
        inputs = [value for value in tuple(args) + tuple((kwargs or {}).values())
                  if isinstance(value, torch.Tensor)]
        entry = self._modules.setdefault(known.name, {})
        entry["input"] = _describe(inputs)
        entry["output"] = _describe(output)
        if "tensor" not in entry["output"] and not isinstance(output, (list, tuple)):
            self._monitor.say_once(
                _native.LOG_WARNING, "%s gives a %s: only tensors, lists and tuples are "
                "described" % (known.name, type(output).__name__))

    def backward(self, known, inputs, outputs):
        if not self._written:
            entry = self._modules.setdefault(known.name, {})
            entry["input_grad"] = _describe(tuple(inputs))
            entry["output_grad"] = _describe(tuple(outputs))

    def finish(self):
        if self._written or not self._modules:
            return
        self._written = True
        if self._monitor.place.rank == self._monitor.first_selected_rank():
            self._monitor.engine.write_file("../module_struct.json",
                                            json.dumps(self._modules, indent=2))
            self._monitor.say_once(_native.LOG_INFO,
                                   "module_struct.json is written; training continues")


class ModuleStacks:
    """stack_info.csv."""

    wants_gradients = False

    def __init__(self, monitor):
        self._monitor = monitor
        self._stacks = {}
        self._written = False

    def forward(self, known, args, kwargs, output):
        if not self._written and known.name not in self._stacks:
            self._stacks[known.name] = stacks.text_of_caller()

    def backward(self, known, inputs, outputs):
        """Stacks are those of forwards."""

    def finish(self):
        if self._written or not self._stacks:
            return
        self._written = True
        rows = [("module_name", "stack_info"), *self._stacks.items()]
        self._monitor.engine.write_file("stack_info.csv", "".join(csv_row(row, "\n") for row in rows))
