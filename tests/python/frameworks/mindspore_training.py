"""training.py for MindSpore: what its scripts import Run from. end_step() is given the loss and the gradients."""
import importlib
import inspect
import random

import mindspore
import numpy
import training
from mindspore import Tensor, mint, nn, ops


def array_of(tensor):
    """Its values; of bfloat16 as float32, which holds them all."""
    if tensor.dtype == mindspore.bfloat16:
        tensor = tensor.astype(mindspore.float32)
    return tensor.asnumpy()


def bytes_of(value):
    """A tensor's dtype, shape and values; None for anything else."""
    if not isinstance(value, Tensor):
        return None
    array = array_of(value)
    return str((str(value.dtype), array.shape)).encode() + array.tobytes()


def statistics(array):
    """[shape, largest, smallest, mean, norm] in float64; None for what has no such numbers."""
    if array.dtype.kind == "c" or not array.size:
        return [list(array.shape), None, None, None, None]
    values = array.astype(numpy.float64)
    numbers = [values.max(), values.min(), values.mean(), numpy.sqrt((values * values).sum())]
    if array.dtype == bool:
        numbers[2:] = []
    return [list(array.shape)] + [float(number) for number in numbers] + [None] * (4 - len(numbers))


class Witness(training.Witness):
    """Inputs and outputs of Cells, gradients of parameters."""

    def __init__(self):
        super().__init__(lambda value: statistics(array_of(value)) if isinstance(value, Tensor) else None)

    def watch(self, model, optimizer):
        for name, cell in model.cells_and_names():
            if name:
                self._watch_cell(cell, "Cell.%s.%s" % (name, type(cell).__name__))

    def _watch_cell(self, cell, name):
        self._handles += [cell.register_forward_pre_hook(lambda _, args: self.put_inputs(name, args)),
                          cell.register_forward_hook(lambda _, args, result: self.put_outputs(name, result))]
        for key, parameter in cell._params.items():
            if parameter is not None and parameter.requires_grad:
                self._handles.append(parameter.register_hook(self._of_parameter(name, key)))

    def _of_parameter(self, name, key):
        def hook(gradient):
            self.put("%s.parameters_grad" % name, {key: (gradient,)})
            return gradient

        return hook


def jit_executor():
    """Where `jit` runs; None in versions that have it elsewhere."""
    try:
        return importlib.import_module("mindspore.graph.api")._JitExecutor
    except ImportError:
        return None


class Run(training.TrainingRun):
    package = "msprobe.mindspore"

    def prepare(self):
        mindspore.set_device("CPU")
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        if self._asked.get("measure"):   # its queues of operators spin while they wait: 20 times the CPU time
            mindspore.runtime.launch_blocking()
        mindspore.set_seed(11)

    def make_witness(self):
        return Witness()

    def end_step(self, loss, gradients):
        """After the optimizer's step."""
        self.finish_step(lambda: self._state(loss, gradients))

    def _state(self, loss, gradients):
        held = self._optimizer.parameters_and_names() if self._optimizer is not None else ()
        state = {"losses": loss, "gradients": gradients, "parameters": list(self._model.parameters_and_names()),
                 "optimizer": list(held),
                 "random generators": [mindspore.get_rng_state(), numpy.random.get_state(), random.getstate()]}
        return {what: training.digest(values, bytes_of) for what, values in state.items()}

    def plant_fault(self, model, name):
        found = [cell for path, cell in model.cells_and_names() if path == name]
        if not found:
            raise RuntimeError("there is no Cell " + name)
        construct = found[0].construct
        found[0].construct = lambda *args, **kwargs: construct(*args, **kwargs) * 1.02

    def hooks_of(self, model):
        places = {}
        for name, cell in model.cells_and_names():
            places["cell " + name] = [type(cell).__qualname__, sorted(vars(cell)), sorted(cell._primitives),
                                      [id(value) for value in cell._primitives.values()],
                                      {key: len(value) for key, value in vars(cell).items()
                                       if "hook" in key and hasattr(value, "__len__") and len(value)}]
        for name, parameter in model.parameters_and_names():
            places["parameter " + name] = [sorted(vars(parameter)), len(parameter.hooks())]
        for holder in (mindspore, Tensor, ops, mint, mint.nn.functional, mint.distributed, nn.Cell, nn.Optimizer,
                       jit_executor()):
            for name in dir(holder):
                value = inspect.getattr_static(holder, name, None)
                if callable(value):
                    places["%s.%s" % (getattr(holder, "__name__", holder), name)] = id(value)
        return places
