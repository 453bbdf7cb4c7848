"""What a training script of these tests tells about itself, and what it is watched by: nothing of msprobe's
unless the test asks for the API.

A script trains like any other and says where its steps are:

    run = Run()
    run.watch(model, optimizer)
    for _ in run.steps():
        ...
        optimizer.step()
        run.end_step(loss)          # before gradients are set to zero
    run.close()

A framework with a loop of its own calls run.begin_step() and run.end_step(loss) from its callbacks and asks
run.count for the number of steps. harness.py starts scripts and reads their reports.
"""
import gc
import hashlib
import inspect
import json
import os
import random
import threading

import numpy
import torch


def digest(*values):
    """A hash of nested values, tensors bit by bit."""
    state = hashlib.sha1()
    stack = list(reversed(values))
    while stack:
        value = stack.pop()
        if isinstance(value, torch.Tensor):
            value = value.detach()
            if hasattr(value, "to_local"):
                value = value.to_local()
            if value.layout != torch.strided:
                value = value.to_dense()
            state.update(str((value.dtype, tuple(value.shape))).encode())
            if value.numel():
                state.update(bytes(value.cpu().contiguous().flatten().view(torch.uint8).numpy()))
        elif isinstance(value, numpy.ndarray):
            state.update(value.tobytes())
        elif isinstance(value, dict):
            stack.extend(reversed([item for pair in value.items() for item in pair]))
        elif isinstance(value, (list, tuple)):
            stack.extend(reversed(value))
        else:
            state.update(repr(value).encode())
    return state.hexdigest()[:16]


def random_state():
    return [torch.get_rng_state(), numpy.random.get_state(), random.getstate()]


# ---- observers ----

class DumpObserver:
    """The capture by its API, started and stopped around every step."""

    def __init__(self, folder, level, task, mode=None):
        from msprobe.pytorch import PrecisionDebugger
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
        from msprobe.pytorch import TrainerMon
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
    """Statistics in float64 of what PyTorch's own hooks see in the first step, under the names of a dump:
    inputs and outputs of modules, gradients of parameters."""

    def __init__(self):
        self.seen = {}
        self._counts = {}
        self._handles = []

    def watch(self, model, optimizer):
        models = model if isinstance(model, (list, tuple)) else [model]
        for number, one in enumerate(models):
            for name, module in one.named_modules():
                if name:
                    chunk = "%d." % number if isinstance(model, (list, tuple)) else ""
                    self._watch_module(module, "Module.%s%s.%s" % (chunk, name, type(module).__name__))

    def _watch_module(self, module, name):
        def before(module, args):
            self._put("%s.forward.%d.input" % (name, self._counts.get(name, 0)), args)

        def after(module, args, result):
            self._put("%s.forward.%d.output" % (name, self._counts.get(name, 0)),
                      result if isinstance(result, tuple) else (result,))
            self._counts[name] = self._counts.get(name, 0) + 1

        self._handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
        for key, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad:
                self._handles.append(parameter.register_hook(
                    lambda gradient, key=key: self._put("%s.parameters_grad" % name, {key: (gradient,)})))

    def _put(self, name, values):
        items = values.items() if isinstance(values, dict) else enumerate(values)
        for key, value in items:
            place = "%s.%s" % (name, key)
            if isinstance(value, torch.Tensor):
                self.seen[place] = statistics(value)
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


def statistics(tensor):
    """[shape, largest, smallest, mean, norm] in float64; None for what has no such numbers."""
    tensor = tensor.detach()
    if tensor.dtype.is_complex or not tensor.numel():
        return [list(tensor.shape), None, None, None, None]
    values = tensor.cpu().to(torch.float64)
    numbers = [values.max(), values.min(), values.mean(), values.norm()]
    if tensor.dtype == torch.bool:
        numbers[2:] = []
    return [list(tensor.shape)] + [float(number) for number in numbers] + [None] * (4 - len(numbers))


# ---- what may be left ----

def hooks_of(model):
    """{place: what is there} of everything a capture could leave at a model or in PyTorch."""
    import torch.distributed
    import torch.nn.modules.module as globals_of_modules
    import torch.utils.checkpoint
    places = {}
    for number, one in enumerate(model if isinstance(model, (list, tuple)) else [model]):
        for name, module in one.named_modules():
            place = "%d:%s" % (number, name)
            places[place] = [type(module).__qualname__, sorted(module.__dict__),
                             {key: len(value) for key, value in module.__dict__.items()
                              if key.endswith("_hooks") and value is not None}]
        for name, parameter in one.named_parameters():
            places["%d:parameter %s" % (number, name)] = [
                sorted(parameter.__dict__), len(parameter._backward_hooks or ()),
                len(getattr(parameter, "_post_accumulate_grad_hooks", None) or ())]
    for holder in (torch, torch.Tensor, torch.nn.functional, torch._C._VariableFunctions, torch.nn.Module,
                   torch.optim.Optimizer, torch.autograd, torch.autograd.Function, torch.distributed,
                   torch.utils.checkpoint, torch.nn.utils, torch._C._nn, torch.linalg, torch.fft, torch.special):
        for name in dir(holder):
            value = inspect.getattr_static(holder, name, None)
            if callable(value) or isinstance(value, (staticmethod, classmethod, property)):
                places["%s.%s" % (getattr(holder, "__name__", type(holder).__name__), name)] = id(value)
    for name, value in vars(globals_of_modules).items():
        if name.startswith("_global_") and isinstance(value, dict):
            places["modules." + name] = len(value)
    if hasattr(torch.overrides, "_get_current_function_mode_stack"):
        places["function modes"] = len(torch.overrides._get_current_function_mode_stack())
    return places


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
        self.rank = int(os.environ.get("RANK", "0"))
        self._asked = asked
        self._folder = asked.get("folder")
        self._observers = []
        self._witness = None
        self._model = self._optimizer = None
        self._steps = []
        self._resources = {}
        self._left = None
        self._done = 0
        torch.set_num_threads(1)
        torch.manual_seed(11)
        random.seed(12)
        numpy.random.seed(13)

    def watch(self, model, optimizer=None, named_parameters=None):
        """To be called once, before the first step. model may be a list of chunks. optimizer may be a function
        that gives one later. named_parameters: where the model's own are not those that are trained."""
        self._model, self._optimizer = model, optimizer
        models = model if isinstance(model, (list, tuple)) else [model]
        self._parameters = named_parameters or (lambda: [pair for one in models for pair in one.named_parameters()])
        if self._asked.get("fault"):
            plant_fault(models, self._asked["fault"])
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
            observer.watch(model, optimizer() if callable(optimizer) and not hasattr(optimizer, "step") else optimizer)

    @property
    def is_observed(self):
        """Whether something of msprobe was started here."""
        return any(not isinstance(one, Witness) for one in self._observers)

    def steps(self):
        for number in range(self.count):
            self.begin_step()
            yield number
            if self._done == number:
                raise RuntimeError("the script has to call end_step()")

    def begin_step(self):
        for observer in self._observers:
            observer.begin_step()

    def end_step(self, *losses, optimizer=None):
        """After the optimizer's step, before gradients are set to zero."""
        for observer in reversed(self._observers):
            observer.end_step()
        if self._asked.get("measure"):
            if self._done + 1 in self._asked["measure"]:
                self._resources[self._done + 1] = resources()
        else:
            self._steps.append(self._state(losses, optimizer or self._optimizer))
        self._done += 1

    def _state(self, losses, optimizer):
        models = self._model if isinstance(self._model, (list, tuple)) else [self._model]
        named = list(self._parameters())
        if callable(optimizer) and not hasattr(optimizer, "step"):
            optimizer = optimizer()
        return {"losses": digest(losses),
                "gradients": digest([(name, one.grad, getattr(one, "main_grad", None)) for name, one in named]),
                "parameters": digest([(name, one) for name, one in named]),
                "buffers": digest([pair for one in models for pair in one.named_buffers()]),
                "optimizer": digest(optimizer.state_dict() if optimizer is not None else None),
                "random generators": digest(random_state())}

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
            path = os.path.join(self._folder, "report%d.json" % self.rank)
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(report, file)
            os.replace(path + ".new", path)


def plant_fault(models, name):
    """The module of this name computes results that are 2 % too large."""
    found = [module for one in models for path, module in one.named_modules() if path == name]
    if not found:
        raise RuntimeError("there is no module " + name)
    forward = found[0].forward

    def wrong(*args, **kwargs):
        result = forward(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            return result * 1.02
        return type(result)([result[0] * 1.02]) + result[1:]

    found[0].forward = wrong
