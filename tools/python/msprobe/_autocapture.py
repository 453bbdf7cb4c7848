"""Capture of a script that knows nothing of msprobe.

A step begins before the first forward of the outermost model (a module with parameters, called from
outside any module) and ends with the optimizer's step; without an optimizer every forward of that
model is a step. Configuration: MSPROBE_DUMP_CONFIG and MSPROBE_DUMP_OVERRIDES.
"""
import functools
import json
import os
import threading

from msprobe import _kinds
from msprobe._session import guarded, log

_watch = None


class Watch:
    """Sees which module is called from outside any module. A framework's subclass says what modules
    and optimizers are."""

    owner = None  # the class of all modules

    def __init__(self, debugger):
        self._debugger = debugger
        self._depth = threading.local()
        self._roots = []
        self._parts = set()
        self._optimizers = 0
        self._open = False
        self._done = False
        self._call = None

    # ---- what a framework says ----

    @staticmethod
    def optimizer_types():
        return ()

    @staticmethod
    def has_parameters(module):
        raise NotImplementedError

    @staticmethod
    def parts(module):
        """The module and all that is in it."""
        raise NotImplementedError

    @staticmethod
    def is_training():
        """Whether gradients are computed: other forwards are an evaluation."""
        return True

    # ---- in place ----

    def install(self):
        self._watch_calls()
        for optimizer in self.optimizer_types():
            optimizer.__init__ = self._counting(optimizer.__init__)

    def _watch_calls(self):
        self._call = self.owner.__call__
        original, depth, watch = self._call, self._depth, self

        def call(self, *args, **kwargs):
            if getattr(depth, "value", 0):
                watch.inside(self)
                return original(self, *args, **kwargs)
            watch._outermost(self)
            depth.value = 1
            try:
                # Looked up now: recording may have begun with this very call.
                return watch._next_call()(self, *args, **kwargs)
            finally:
                depth.value = 0
                watch.outermost_ended(self)

        self._own_call = call
        self.owner.__call__ = call

    def _counting(self, initialise):
        @functools.wraps(initialise)
        def counted(optimizer, *args, **kwargs):
            self._optimizers += 1
            return initialise(optimizer, *args, **kwargs)

        return counted

    def inside(self, module):
        """A module is called inside another one."""

    def outermost_ended(self, module):
        """A call from outside any module is over."""

    def _next_call(self):
        current = self.owner.__call__
        return self._call if current is self._own_call else current

    def _stop_watching(self):
        self._done = True
        self._leave_calls()

    def _leave_calls(self):
        if self.owner.__call__ is self._own_call:
            self.owner.__call__ = self._call

    # ---- steps ----

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
        elif self._optimizers and not self.is_training():
            return  # evaluation between training steps
        self._begin_step()

    def _is_root(self, module):
        if any(root is module for root in self._roots):
            return True
        if isinstance(module, self.optimizer_types()) or not self.has_parameters(module):
            return False
        self._roots.append(module)
        self._parts.update(id(part) for part in self.parts(module) if part is not module)
        return True

    def _begin_step(self):
        session = self._debugger._session
        session.start(self._roots[0] if len(self._roots) == 1 else list(self._roots))
        if session.finished:
            self._stop_watching()
        else:
            self._open = True

    @guarded
    def optimizer_stepped(self):
        if self._open:
            self._end_step()

    def _end_step(self):
        self._open = False
        session = self._debugger._session
        session.stop()
        session.step()


def activate(debugger_type, watch_type):
    """Called once, when the framework has been imported in a process that inherited the
    configuration."""
    global _watch
    if _watch is not None:
        return
    config_path = os.environ.get("MSPROBE_DUMP_CONFIG")
    overrides = json.loads(os.environ.get("MSPROBE_DUMP_OVERRIDES") or "{}")
    try:
        debugger = debugger_type._for_launcher(config_path or None, overrides)
    except ValueError as error:
        log(_kinds.LOG_ERROR, "nothing is captured: %s" % error)
        return
    if debugger._session.level == "debug":
        log(_kinds.LOG_WARNING, "level debug records what a script saves itself: this script is "
                                "run without capture")
        return
    debugger._hooks.keep_apis(debugger._session)
    _watch = watch_type(debugger)
    _watch.install()
