"""What a training script of these tests tells about itself, and what it is watched by, for any framework: nothing of
msprobe's unless the test asks for the API. torch_training.py and mindspore_training.py say what only a framework can.

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
import ctypes
import gc
import hashlib
import importlib
import json
import os
import random
import threading

import numpy


def digest(values, bytes_of):
    """A hash of nested values. bytes_of(value): what a tensor holds, bit by bit; None for what is no tensor."""
    state = hashlib.sha1()
    stack = [values]
    while stack:
        value = stack.pop()
        held = bytes_of(value)
        if held is not None:
            state.update(held)
        elif isinstance(value, numpy.ndarray):
            state.update(value.tobytes())
        elif isinstance(value, dict):
            stack.extend(reversed([item for pair in value.items() for item in pair]))
        elif isinstance(value, (list, tuple)):
            stack.extend(reversed(value))
        else:
            state.update(repr(value).encode())
    return state.hexdigest()[:16]


def resources():
    """{memory: bytes of its own that are resident, descriptors, threads}. What the C library keeps for later goes back to the system before, and
    pages of files do not count: both come and go by megabytes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        resident, of_files = (int(pages) for pages in file.read().split()[1:3])
    return {"memory": (resident - of_files) * os.sysconf("SC_PAGE_SIZE"), "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task"))}


# ---- observers ----

class DumpObserver:
    """The capture by its API, started and stopped around every step."""

    def __init__(self, package, folder, level, task, mode=None):
        path = os.path.join(folder, "dump_config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"task": task, "level": level, "dump_path": os.path.join(folder, "dump"),
                       task: {"summary_mode": mode} if mode else {}}, file)
        self._debugger = importlib.import_module(package).PrecisionDebugger(path)

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

    def __init__(self, package, folder, settings):
        os.environ["MONITOR_OUTPUT_DIR"] = os.path.join(folder, "monitor")
        self._package = package
        self._path = os.path.join(folder, "monitor_config.json")
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump(settings, file)
        self._monitor = None

    def watch(self, model, optimizer):
        self._monitor = importlib.import_module(self._package).TrainerMon(self._path)
        self._monitor.set_monitor(model, optimizer)

    def begin_step(self):
        pass

    def end_step(self):
        pass

    def close(self):
        if self._monitor is not None:
            self._monitor.close()


class Witness:
    """Statistics in float64 of what the framework's own hooks see in the first step, under the names of a dump. A
    framework sets its hooks in watch() and names what they see: statistics_of(value) is None for what is no tensor."""

    def __init__(self, statistics_of):
        self.seen = {}
        self._statistics_of = statistics_of
        self._counts = {}
        self._handles = []

    def put_inputs(self, name, args):
        """Begins a call. It counts even if it never ends: checkpointing leaves a module as soon as it has what it needs."""
        number = self._counts[name] = self._counts.get(name, -1) + 1
        self.put("%s.forward.%d.input" % (name, number), args)

    def put_outputs(self, name, result):
        """Ends the call that put_inputs() began last."""
        self.put("%s.forward.%d.output" % (name, self._counts[name]), result if isinstance(result, tuple) else (result,))

    def put(self, name, values):
        items = values.items() if isinstance(values, dict) else enumerate(values)
        for key, value in items:
            place = "%s.%s" % (name, key)
            numbers = self._statistics_of(value)
            if numbers is not None:
                self.seen[place] = numbers
            elif isinstance(value, (dict, list, tuple)):
                self.put(place, value)

    def begin_step(self):
        pass

    def end_step(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def close(self):
        pass


# ---- a run ----

class TrainingRun:
    """A training under the observers that $MSPROBE_RUN asks for; its report is written by close(). A framework gives
    `package` and the functions that raise here."""

    package = None  # the one of msprobe, "msprobe.pytorch"

    def prepare(self):
        """One device, one thread, one seed."""
        raise NotImplementedError

    def make_witness(self):
        raise NotImplementedError

    def plant_fault(self, model, name):
        """Makes the module of this name compute results that are 2 % too large."""
        raise NotImplementedError

    def made(self, optimizer):
        """The optimizer that observers get, where scripts of the framework may give something else."""
        return optimizer

    def resources(self):
        """{what: how much of it} that must not grow from step to step."""
        return resources()

    def hooks_of(self, model):
        """{place: what is there} of everything a capture could leave at a model or in the framework."""
        raise NotImplementedError

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
        self._noted = {}
        self._before = {}
        self._done = 0
        self.prepare()
        random.seed(12)
        numpy.random.seed(13)

    def watch(self, model, optimizer=None):
        """To be called once, before the first step."""
        self._model, self._optimizer = model, optimizer
        if self._asked.get("fault") and self.rank in self._asked.get("faulty_ranks", [self.rank]):
            self.plant_fault(model, self._asked["fault"])
        self._before = self.hooks_of(model)
        for text in self._asked.get("observers", []):
            kind, *rest = text.split(":")
            if kind == "dump":
                self._observers.append(DumpObserver(self.package, self._folder, *rest))
            elif kind == "monitor":
                self._observers.append(MonitorObserver(self.package, self._folder, self._asked["monitor"]))
            elif kind == "witness":
                self._witness = self.make_witness()
                self._observers.append(self._witness)
        for observer in self._observers:
            observer.watch(model, self.made(optimizer))

    @property
    def is_observed(self):
        """Whether something of msprobe was started here."""
        return any(not isinstance(observer, Witness) for observer in self._observers)

    def steps(self):
        for number in range(self.count):
            self.begin_step()
            yield number
            if self._done == number:
                raise RuntimeError("the script has to call end_step()")

    def begin_step(self):
        for observer in self._observers:
            observer.begin_step()

    def finish_step(self, state):
        """state(): {what: its hash} of the training after this step."""
        for observer in reversed(self._observers):
            observer.end_step()
        if self._asked.get("measure"):
            if self._done + 1 in self._asked["measure"]:
                self._resources[self._done + 1] = self.resources()
        else:
            self._steps.append(state())
        self._done += 1

    def close(self):
        for observer in self._observers:
            observer.close()
        report = {"steps": self._steps, "resources": self._resources}
        if self._witness is not None:
            report["witness"] = self._witness.seen
        before, after = self._before, self.hooks_of(self._model)
        report["left"] = {place: [before.get(place), after.get(place)] for place in sorted(set(before) | set(after))
                          if before.get(place) != after.get(place)}
        if self._noted:
            report["noted"] = self._noted
        report["threads"] = [thread.name for thread in threading.enumerate()]
        if self._folder:
            path = os.path.join(self._folder, "report%d.json" % self.rank)
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(report, file)
            os.replace(path + ".new", path)
