"""PyTorch's tracers and compilers find everything as it was.

While something is traced or exported (torch.jit.trace, torch.fx, make_fx, fake tensors), calls pass
as if nothing watched. While a compiled function or module runs, nothing is replaced at all: the
compiler would read the replacements, and the guards of what it compiled would fail.
"""
import importlib
import sys
import types

import torch
from torch.utils import _python_dispatch

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.slots import Slot, over

_tracing_state = torch._C._get_tracing_state
_symbolic_trace = importlib.import_module("torch.fx._symbolic_trace")
_compiler = getattr(torch, "compiler", None)
if not hasattr(_compiler, "_is_compiling_flag"):
    _compiler = types.SimpleNamespace(_is_compiling_flag=False)
_TRACING_MODES = ("FakeTensorMode", "ProxyTorchDispatchMode", "FunctionalTensorMode")


def in_tracing_mode():
    return any(type(mode).__name__ in _TRACING_MODES
               for mode in _python_dispatch._get_current_dispatch_mode_stack())


# Asked before every recorded call: one frame, and no more than what this version has.
if hasattr(_python_dispatch, "_is_in_torch_dispatch_mode"):
    def is_traced():
        """Whether the program is read by a tracer, a compiler or an exporter at this moment."""
        return (_tracing_state() is not None or _symbolic_trace._is_fx_tracing_flag
                or _compiler._is_compiling_flag
                or (_python_dispatch._is_in_torch_dispatch_mode and in_tracing_mode()))
else:
    _depth_of_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)

    def is_traced():
        """Whether the program is read by a tracer, a compiler or an exporter at this moment."""
        return (_tracing_state() is not None or _symbolic_trace._is_fx_tracing_flag
                or _compiler._is_compiling_flag
                or (_depth_of_modes() > 0 and in_tracing_mode()))


class Compilers:
    """In place while anything else is."""

    sees_inside = False  # somebody records what is compiled

    def __init__(self):
        self._slots = ()
        self._frames = None
        self._inside = None  # whose call of what is compiled is under way

    def put(self):
        if not self._slots:
            self._slots = list(self._make_slots())
            for slot in self._slots:
                slot.put()
        self._watch_frames()

    def take(self):
        slots, self._slots = self._slots, ()
        for slot in slots:
            slot.take()
        if self._frames is not None and self._inside is None:
            self._frames.take()
            self._frames = None

    def _make_slots(self):
        if hasattr(torch, "compile"):
            yield over(torch, "compile", self._around_compile)
        yield over(torch.jit, "script", _away_during)

    def _around_compile(self, function):
        without_us = _away_during(function)

        def compile(*args, **kwargs):
            result = without_us(*args, **kwargs)
            self._watch_frames()
            return result

        compile.__wrapped__ = function
        compile.__doc__ = function.__doc__
        return compile

    # ---- calls of what is compiled ----

    def _watch_frames(self):
        """torch.compile says to the interpreter when it wants to see frames."""
        module = sys.modules.get("torch._dynamo.eval_frame")
        if module is None or self._frames is not None:
            return
        for name in ("_maybe_set_eval_frame", "set_eval_frame"):
            if hasattr(module, name):
                self._frames = Slot(module, name, self._around_frames(getattr(module, name)))
                self._frames.put()
                return

    def _around_frames(self, original):
        def set_eval_frame(callback):
            wanted = callback is not None and callback is not False
            caller = _caller(sys._getframe(1))
            if wanted and self._inside is None:
                self._inside = caller
                if not self.sees_inside:
                    runtime.say_once(_native.LOG_WARNING, "compiled code runs: what happens inside it "
                                     "cannot be seen, only calls around it")
                runtime.leave_for_a_while()
            result = original(callback)
            # Others say None too, while they keep the compiler from reading them; it goes on then.
            if not wanted and self._inside == caller:
                self._inside = None
                runtime.come_back()
            return result

        return set_eval_frame


def _caller(frame):
    """Who begins and ends: a running function, or a context manager."""
    if frame.f_code.co_name in ("__enter__", "__exit__"):
        return id(frame.f_locals.get("self"))
    return id(frame)


def _away_during(function):
    def run(*args, **kwargs):
        with runtime.away():
            return function(*args, **kwargs)

    run.__wrapped__ = function
    run.__doc__ = function.__doc__
    return run


def attend():
    """Once, when PyTorch is observed for the first time."""
    runtime.trace_check(is_traced)
    runtime.accompany(Compilers())
