"""Which compiled graphs run, and which of their calls are looked at.

One function of inductor is replaced: the one that makes code for a graph or takes it from a cache. It is called once per graph
of every compilation. What it returns gets a function in front of the generated one, which passes on all calls but those that
are to be checked. Nothing that decides about recompilation is touched.
"""
import functools
import importlib.abc
import importlib.util
import os
import sys
import threading
import time

import torch

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.runtime import described, log, own_work, say_once
from msprobe._intercept.slots import Slot
from msprobe.pytorch.compile_check import nodes
from msprobe.pytorch.compile_check.calls import Budget, CheckedCall
from msprobe.pytorch.compile_check.graphs import Graph
from msprobe.pytorch.compile_check.repro import Folders
from msprobe.pytorch.compile_check.rows import NOT_CHECKED, RIGHT, WRONG, Rows

FILE = "compile_check.csv"
_UNKNOWN = "the %s of PyTorch %s are not known here, those of 2.6 to 2.13 are"
_PLACE, _FUNCTION = "torch._inductor.compile_fx", "_compile_fx_inner"
# With changing shapes: so many different ones of a graph.
_MOST_SHAPES = 3


class _Unknown(Exception):
    """A version of PyTorch that is built otherwise."""


class Watch:
    """One at a time. `steps`: numbers of the calls of each graph to check. `graphs`, `kernels`: only these; None: all.
    `seconds`, `megabytes`: what checking may take. `repro`: a folder for kernels alone, or None. `against`: "eager" or None."""

    def __init__(self, output, steps=(0,), graphs=None, kernels=None, seconds=None, megabytes=None, repro=None, against=None):
        self._output = output
        self._steps = steps
        self._only_graphs = graphs
        self._only_kernels = kernels
        self._budget = Budget(seconds, megabytes)
        self._repro = repro
        self._folders = None
        self._against_eager = against == "eager"
        self._rows = None
        self._lock = threading.RLock()
        self._slots = []
        self._eager = None
        self._running = False
        self._names = {}
        self._record = None  # of calls.CheckedCall

    # ---- in place ----

    def install(self):
        self._running = True
        runtime.at_exit(self.close)
        runtime.after_fork(self._after_fork)
        for place, put in ((_PLACE, self._put), (nodes.PLACE, self._put_backends)):
            if place in sys.modules:
                self._put_or_say(put, sys.modules[place])
            else:  # a program that compiles nothing does not pay for it
                sys.meta_path.insert(0, _Afterwards(place, functools.partial(self._put_or_say, put)))

    @staticmethod
    def _put_or_say(put, module):
        try:
            put(module)
        except Exception as error:
            say_once(_native.LOG_WARNING, "compile_check: %s: nothing of them is checked, the program goes on" % (
                error if isinstance(error, _Unknown) else described(error)))

    def _put(self, module):
        if not hasattr(module, _FUNCTION):
            raise _Unknown(_UNKNOWN % ("graphs of inductor", torch.__version__))
        _without_cached_autograd()
        self._replace(module, _FUNCTION, self._counted(getattr(module, _FUNCTION)))

    def _put_backends(self, module):
        """Those that run operators one by one."""
        registry = sys.modules.get("torch._dynamo.backends.registry")
        known = getattr(registry, "_COMPILER_FNS", None)
        if not hasattr(module, "boxed_nop") or not isinstance(known, dict) or "eager" not in known:
            raise _Unknown(_UNKNOWN % ("backends eager and aot_eager", torch.__version__))
        self._replace(module, "boxed_nop", nodes.boxed_nop(module.boxed_nop, self._watched_nodes))
        self._eager = known, known["eager"]
        known["eager"] = nodes.eager(known["eager"], self._watched_nodes)

    def _replace(self, holder, name, function):
        self._slots.append(Slot(holder, name, function))
        self._slots[-1].put()

    def _after_fork(self):
        """Processes that compile for this one, and those that load data."""
        self._running = False

    def close(self):
        if not self._running:
            return
        self._running = False
        for slot in self._slots:
            slot.take()
        if self._eager is not None:
            self._eager[0]["eager"] = self._eager[1]
        with self._lock:
            if self._rows is not None:
                self._safely(self._rows.write)
                counts = self._rows.counts()
                log(_native.LOG_INFO, "compile_check: %d right, %d wrong, %d not checked: %s" % (
                    counts[RIGHT], counts[WRONG], counts[NOT_CHECKED], os.path.normpath(self._rows.path)))

    # ---- graphs ----

    def _counted(self, inner):
        @functools.wraps(inner)
        def compile_graph(gm, example_inputs, *args, **kwargs):
            if not self._running:
                return inner(gm, example_inputs, *args, **kwargs)
            graph = self._safely(self._prepared, gm, kwargs)
            compiled = inner(gm, example_inputs, *args, **kwargs)
            if graph is not None:
                self._safely(self._watch, graph, compiled)
            return compiled
        return compile_graph

    def _safely(self, function, *arguments):
        try:
            return function(*arguments)
        except Exception as error:
            say_once(_native.LOG_WARNING, "compile_check: a graph is not checked: %s" % described(error))
            return None

    def _prepared(self, gm, kwargs):
        """A copy: inductor changes the graph that it is given."""
        direction = "backward" if kwargs.get("is_backward") else "inference" if kwargs.get("is_inference") else "forward"
        return Graph(self._name(direction, kwargs.get("graph_id")), gm)

    def _name(self, direction, graph_id=None):
        current = torch._guards.CompileContext.current_compile_id()
        number = str(current) if current is not None else "graph_%s" % graph_id
        name = "%s %s" % (number.split("_")[0] if current is not None else number, direction)
        with self._lock:
            count = self._names[name] = self._names.get(name, 0) + 1
        return name if count == 1 else "%s %d" % (name, count)

    def _watched_nodes(self, gm, inputs, direction, function, boxed):
        """Behind a function that an operator-by-operator backend made."""
        graph = self._safely(lambda: nodes.NodeGraph(self._name(direction), gm, inputs)) if self._running else None
        if graph is None:
            return function

        @functools.wraps(function)
        def called(*args):
            given = args[0] if boxed else args
            if self._running and self._is_wanted(graph, given):
                return self._check(graph, function, args, lambda: nodes.CheckedNodes(graph, self._rows, self._budget, self._record).call(given, boxed))
            return function(*args)

        if boxed:
            called._boxed_call = True
        return called

    def _watch(self, graph, compiled):
        if not hasattr(compiled, "current_callable"):
            say_once(_native.LOG_WARNING, "compile_check: a graph of the kind %s is not checked" % type(compiled).__name__)
            return
        graph.compiled(compiled)
        if graph.module is None:
            say_once(_native.LOG_WARNING, "compile_check: the generated code of graph %s is not found: it is not checked" % graph.name)
            return
        function = compiled.current_callable

        @functools.wraps(function)
        def called(args):
            if self._running and self._is_wanted(graph, args):
                return self._check(graph, function, (args,), lambda: CheckedCall(
                    graph, self._rows, self._budget, self._folders, self._against_eager, self._record).run(function, args))
            return function(args)

        compiled.current_callable = called

    def _is_wanted(self, graph, args):
        number = graph.calls
        graph.calls += 1
        if self._only_graphs is not None and graph.name.split(" ")[0] not in self._only_graphs and graph.name not in self._only_graphs:
            return False
        if self._steps is None or number in self._steps:
            return True
        if graph.has_numbers and len(graph.shapes) < _MOST_SHAPES:
            return tuple(item for item in args if isinstance(item, int)) not in graph.shapes
        return False

    def _check(self, graph, function, args, run):
        if self._budget.refuses(0):
            return function(*args)
        given = args[0] if len(args) == 1 and isinstance(args[0], list) else args
        begin = time.monotonic()
        if self._rows is None:
            rank = _rank()
            own = "" if rank is None else "rank%d" % rank
            self._rows = Rows(os.path.join(self._output, own, FILE), self._only_kernels)
            if self._repro is not None:
                self._folders = Folders(os.path.join(self._repro, own), self._only_kernels)
        graph.shapes.add(tuple(item for item in given if isinstance(item, int)))
        with self._lock, own_work():
            result = run()
            self._budget.spent += time.monotonic() - begin
            self._safely(self._rows.write)
        return result


class _Afterwards(importlib.abc.MetaPathFinder):
    """Calls then(module) once, when a module has been imported."""

    def __init__(self, name, then):
        self._name = name
        self._then = then

    def find_spec(self, fullname, path, target=None):
        if fullname != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                self._then(module)

            spec.loader.exec_module = exec_module
        return spec


def _rank():
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return None


def _without_cached_autograd():
    """AOTAutograd's own cache gives code without the graph that it is of; inductor's, which holds the kernels, stays in use."""
    try:
        import torch._functorch.config as config
        if hasattr(config, "enable_autograd_cache"):
            config.enable_autograd_cache = False
    except ImportError:
        pass
