"""Capture of a script that knows nothing of msprobe.

A step begins before the first forward of the outermost model (a module with parameters, called from
outside any module) and ends with the optimizer's step; without an optimizer every forward of that
model is a step. Configuration: MSPROBE_DUMP_CONFIG and MSPROBE_DUMP_OVERRIDES.
"""
import functools
import importlib
import json
import os
import threading

import torch

from msprobe import _kinds
from msprobe._session import guarded, log
from msprobe.pytorch.debugger import PrecisionDebugger
from msprobe.pytorch.patches import OptimizerWatch

_watch = None


class _Watch:
    def __init__(self, debugger):
        self._debugger = debugger
        self._depth = threading.local()
        self._roots = []
        self._parts = set()
        self._optimizers = 0
        self._open = False
        self._done = False
        self._call = None
        self._initialise = None
        self._steps = OptimizerWatch(lambda: None, self._optimizer_stepped)

    def install(self):
        self._call = torch.nn.Module.__call__
        original, depth, watch = self._call, self._depth, self

        def call(self, *args, **kwargs):
            if getattr(depth, "value", 0):
                return original(self, *args, **kwargs)
            watch._outermost(self)
            depth.value = 1
            try:
                # Looked up now: recording may have begun with this very call.
                return watch._next_call()(self, *args, **kwargs)
            finally:
                depth.value = 0

        self._own_call = call
        torch.nn.Module.__call__ = call
        optimizer = importlib.import_module("torch.optim.optimizer").Optimizer
        initialise = optimizer.__init__

        @functools.wraps(initialise)
        def counted(self, *args, **kwargs):
            watch._optimizers += 1
            return initialise(self, *args, **kwargs)

        optimizer.__init__ = counted
        self._steps.put()

    def _next_call(self):
        current = torch.nn.Module.__call__
        return self._call if current is self._own_call else current

    def _stop_watching(self):
        self._done = True
        if torch.nn.Module.__call__ is self._own_call:
            torch.nn.Module.__call__ = self._call

    @guarded
    def _outermost(self, module):
        if self._done or id(module) in self._parts:
            return
        if self._debugger._started_by_script:  # it knows of msprobe after all
            self._stop_watching()
            return
        if not self._is_root(module):
            return
        if self._open:
            if self._optimizers or module is not self._roots[0]:
                return
            self._end_step()
        elif self._optimizers and not torch.is_grad_enabled():
            return  # evaluation between training steps
        self._begin_step()

    def _is_root(self, module):
        if any(root is module for root in self._roots):
            return True
        if next(module.parameters(), None) is None:
            return False
        self._roots.append(module)
        self._parts.update(id(part) for part in module.modules() if part is not module)
        return True

    def _begin_step(self):
        session = self._debugger._session
        session.start(self._roots[0] if len(self._roots) == 1 else list(self._roots))
        if session.finished:
            self._stop_watching()
        else:
            self._open = True

    @guarded
    def _optimizer_stepped(self):
        if self._open:
            self._end_step()

    def _end_step(self):
        self._open = False
        session = self._debugger._session
        session.stop()
        session.step()


def activate():
    """Called once, when torch has been imported in a process that inherited the configuration."""
    global _watch
    if _watch is not None:
        return
    config_path = os.environ.get("MSPROBE_DUMP_CONFIG")
    overrides = json.loads(os.environ.get("MSPROBE_DUMP_OVERRIDES") or "{}")
    try:
        debugger = PrecisionDebugger._for_launcher(config_path or None, overrides)
    except ValueError as error:
        log(_kinds.LOG_ERROR, "nothing is captured: %s" % error)
        return
    if debugger._session.level == "debug":
        log(_kinds.LOG_WARNING, "level debug records what a script saves itself: this script is "
                                "run without capture")
        return
    debugger._hooks.keep_apis(debugger._session)
    _watch = _Watch(debugger)
    _watch.install()
