"""Capture of a script that knows nothing of msprobe.

A step begins before the first forward of the outermost model (a module with parameters, called from
outside any module) and ends with the optimizer's step; without an optimizer every forward of that
model is a step. Configuration: MSPROBE_DUMP_CONFIG and MSPROBE_DUMP_OVERRIDES.
"""
import functools
import json
import os
import threading

from msprobe import _native
from msprobe._intercept.modules import ModuleCalls, SeenCall
from msprobe._intercept.slots import Slot
from msprobe._intercept.runtime import guarded, log

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
    def is_helper():
        """Whether this process only prepares data: a model that runs in it is not the training's."""
        return False

    @staticmethod
    def is_training():
        """Whether gradients are computed: other forwards are an evaluation."""
        return True

    # ---- in place ----

    only = None  # every call is looked at

    def install(self):
        self.watch_calls()
        for optimizer in self.optimizer_types():
            Slot(optimizer, "__init__", self._counting(optimizer.__init__)).put()

    def watch_calls(self):
        ModuleCalls.of(self.owner).subscribe(self)

    def leave_calls(self):
        ModuleCalls.of(self.owner).unsubscribe(self)

    def before(self, module, args, kwargs):
        """For _intercept.modules. Recording may begin with this very call."""
        if getattr(self._depth, "value", 0):
            self.inside(module)
            return None
        self._outermost(module)
        self._depth.value = 1
        return _Outermost(self, module, args, kwargs)

    def ended(self, module):
        self._depth.value = 0
        self.outermost_ended(module)

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

    def _stop_watching(self):
        self._done = True
        self.leave_calls()

    # ---- steps ----

    @guarded
    def _outermost(self, module):
        if self._done or id(module) in self._parts:
            return
        # A script that knows of msprobe after all, or a worker of its data loader.
        if self._debugger._started_by_script or self.is_helper():
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


class _Outermost(SeenCall):
    """A call from outside any module."""

    __slots__ = ("_watch", "_module")

    def __init__(self, watch, module, args, kwargs):
        super().__init__(args, kwargs)
        self._watch = watch
        self._module = module

    def after(self, result):
        self._watch.ended(self._module)
        return result

    def failed(self):
        self._watch.ended(self._module)


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
        log(_native.LOG_ERROR, "nothing is captured: %s" % error)
        return
    if debugger._session.level == "debug":
        log(_native.LOG_WARNING, "level debug records what a script saves itself: this script is "
                                "run without capture")
        return
    debugger._session.level_is_default = bool(os.environ.get("MSPROBE_DUMP_LEVEL_IS_DEFAULT"))
    debugger._hooks.keep_apis(debugger._session)
    _watch = watch_type(debugger)
    _watch.install()
