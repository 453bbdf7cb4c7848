"""What a MindSpore training script of these tests tells about itself: torch_training.py for MindSpore, with the same
environment, the same report and the same class Run, whose end_step() is given the loss and the gradients."""
import gc
import hashlib
import inspect
import json
import os
import random
import threading

import mindspore
import numpy
from mindspore import Tensor, mint, nn, ops


def digest(*values):
    """A hash of nested values, tensors bit by bit."""
    state = hashlib.sha1()
    stack = list(reversed(values))
    while stack:
        value = stack.pop()
        if isinstance(value, Tensor):
            array = array_of(value)
            state.update(str((str(value.dtype), array.shape)).encode() + array.tobytes())
        elif isinstance(value, numpy.ndarray):
            state.update(value.tobytes())
        elif isinstance(value, dict):
            stack.extend(reversed([item for pair in value.items() for item in pair]))
        elif isinstance(value, (list, tuple)):
            stack.extend(reversed(value))
        else:
            state.update(repr(value).encode())
    return state.hexdigest()[:16]


def array_of(tensor):
    """Its values; of bfloat16 as float32, which holds them all."""
    if tensor.dtype == mindspore.bfloat16:
        tensor = tensor.astype(mindspore.float32)
    return tensor.asnumpy()


def random_state():
    return [mindspore.get_rng_state(), numpy.random.get_state(), random.getstate()]


# ---- observers ----

class DumpObserver:
    """The capture by its API, started and stopped around every step."""

    def __init__(self, folder, level, task, mode=None):
        from msprobe.mindspore import PrecisionDebugger
        path = os.path.join(folder, "dump_config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"task": task, "level": level, "dump_path": os.path.join(folder, "dump"),
                       task: {"summary_mode": mode} if mode else {}}, file)
        self._debugger = PrecisionDebugger(path)

    def watch(self, model, optimizer):
        self._model = model

    def begin_step(self):
        self._debugger.start(model=self._model)

    def end_step(self):
        self._debugger.stop()
        self._debugger.step()

    def close(self):
        pass


class MonitorObserver:
    """The monitor by its API."""

    def __init__(self, folder, settings):
        os.environ["MONITOR_OUTPUT_DIR"] = os.path.join(folder, "monitor")
        self._path = os.path.join(folder, "monitor_config.json")
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump(settings, file)
        self._monitor = None

    def watch(self, model, optimizer):
        from msprobe.mindspore import TrainerMon
        self._monitor = TrainerMon(self._path)
        self._monitor.set_monitor(model, optimizer)

    def begin_step(self):
        pass

    def end_step(self):
        pass

    def close(self):
        if self._monitor is not None:
            self._monitor.close()


class Witness:
    """Statistics in float64 of what MindSpore's own hooks see in the first step, under the names of a dump: inputs
    and outputs of Cells, gradients of parameters and of what Cells gave."""

    def __init__(self):
        self.seen = {}
        self._counts = {}
        self._handles = []

    def watch(self, model, optimizer):
        for name, cell in model.cells_and_names():
            if name:
                self._watch_cell(cell, "Cell.%s.%s" % (name, type(cell).__name__))

    def _watch_cell(self, cell, name):
        def before(_, args):
            self._put("%s.forward.%d.input" % (name, self._counts.get(name, 0)), args)

        def after(_, args, result):
            number = self._counts.get(name, 0)
            self._counts[name] = number + 1
            self._put("%s.forward.%d.output" % (name, number), result if isinstance(result, tuple) else (result,))

        self._handles += [cell.register_forward_pre_hook(before), cell.register_forward_hook(after)]
        for key, parameter in cell._params.items():
            if parameter is not None and parameter.requires_grad:
                self._handles.append(parameter.register_hook(self._of_parameter(name, key)))

    def _of_parameter(self, name, key):
        def hook(gradient):
            self._put("%s.parameters_grad" % name, {key: (gradient,)})
            return gradient

        return hook

    def _put(self, name, values):
        items = values.items() if isinstance(values, dict) else enumerate(values)
        for key, value in items:
            place = "%s.%s" % (name, key)
            if isinstance(value, Tensor):
                self.seen[place] = statistics(array_of(value))
            elif isinstance(value, (dict, list, tuple)):
                self._put(place, value)

    def begin_step(self):
        pass

    def end_step(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def close(self):
        pass


def statistics(array):
    """[shape, largest, smallest, mean, norm] in float64; None for what has no such numbers."""
    if array.dtype.kind == "c" or not array.size:
        return [list(array.shape), None, None, None, None]
    values = array.astype(numpy.float64)
    numbers = [values.max(), values.min(), values.mean(), numpy.sqrt((values * values).sum())]
    if array.dtype == bool:
        numbers[2:] = []
    return [list(array.shape)] + [float(number) for number in numbers] + [None] * (4 - len(numbers))


# ---- what may be left ----

def hooks_of(model):
    """{place: what is there} of everything a capture could leave at a model or in MindSpore."""
    places = {}
    for name, cell in model.cells_and_names():
        places["cell " + name] = [type(cell).__qualname__, sorted(vars(cell)), sorted(cell._primitives),
                                  [id(value) for value in cell._primitives.values()],
                                  {key: len(value) for key, value in vars(cell).items()
                                   if "hook" in key and hasattr(value, "__len__") and len(value)}]
    for name, parameter in model.parameters_and_names():
        places["parameter " + name] = [sorted(vars(parameter)), len(parameter.hooks())]
    executors = importlib_of("mindspore.graph.api")
    for holder in (mindspore, Tensor, ops, mint, mint.nn.functional, mint.distributed, nn.Cell, nn.Optimizer,
                   executors and executors._JitExecutor):
        for name in dir(holder):
            value = inspect.getattr_static(holder, name, None)
            if callable(value):
                places["%s.%s" % (getattr(holder, "__name__", holder), name)] = id(value)
    return places


def importlib_of(name):
    import importlib
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def resources():
    """{memory: bytes resident, descriptors, threads}"""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return {"memory": pages * os.sysconf("SC_PAGE_SIZE"), "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task"))}


# ---- a run ----

class Run:
    """A training under the observers that $MSPROBE_RUN asks for; its report is written by close()."""

    def __init__(self):
        asked = json.loads(os.environ.get("MSPROBE_RUN", "{}"))
        self.count = asked.get("steps", 3)
        self._asked = asked
        self._folder = asked.get("folder")
        self._observers = []
        self._witness = None
        self._steps = []
        self._resources = {}
        self._before = {}
        self._done = 0
        mindspore.set_device("CPU")
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        mindspore.set_seed(11)
        random.seed(12)
        numpy.random.seed(13)

    def watch(self, model, optimizer=None):
        """To be called once, before the first step."""
        self._model, self._optimizer = model, optimizer
        if self._asked.get("fault"):
            plant_fault(model, self._asked["fault"])
        self._before = hooks_of(model)
        for text in self._asked.get("observers", []):
            kind, *rest = text.split(":")
            if kind == "dump":
                self._observers.append(DumpObserver(self._folder, *rest))
            elif kind == "monitor":
                self._observers.append(MonitorObserver(self._folder, self._asked["monitor"]))
            elif kind == "witness":
                self._witness = Witness()
                self._observers.append(self._witness)
        for observer in self._observers:
            observer.watch(model, optimizer)

    def steps(self):
        for number in range(self.count):
            for observer in self._observers:
                observer.begin_step()
            yield number
            if self._done == number:
                raise RuntimeError("the script has to call end_step()")

    def end_step(self, loss, gradients):
        """After the optimizer's step."""
        for observer in reversed(self._observers):
            observer.end_step()
        if self._asked.get("measure"):
            if self._done + 1 in self._asked["measure"]:
                self._resources[self._done + 1] = resources()
        else:
            self._steps.append(self._state(loss, gradients))
        self._done += 1

    def _state(self, loss, gradients):
        state = self._optimizer.parameters_and_names() if self._optimizer is not None else ()
        return {"losses": digest(loss), "gradients": digest(gradients),
                "parameters": digest(list(self._model.parameters_and_names())),
                "optimizer": digest(list(state)), "random generators": digest(random_state())}

    def close(self):
        for observer in self._observers:
            observer.close()
        report = {"steps": self._steps, "resources": self._resources}
        if self._witness is not None:
            report["witness"] = self._witness.seen
        after = hooks_of(self._model)
        report["left"] = {place: [self._before.get(place), after.get(place)] for place in sorted(set(self._before) | set(after))
                          if self._before.get(place) != after.get(place)}
        report["threads"] = [one.name for one in threading.enumerate()]
        if self._folder:
            path = os.path.join(self._folder, "report0.json")
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(report, file)
            os.replace(path + ".new", path)


def plant_fault(model, name):
    """The Cell of this name computes results that are 2 % too large."""
    found = [cell for path, cell in model.cells_and_names() if path == name]
    if not found:
        raise RuntimeError("there is no Cell " + name)
    construct = found[0].construct
    found[0].construct = lambda *args, **kwargs: construct(*args, **kwargs) * 1.02
