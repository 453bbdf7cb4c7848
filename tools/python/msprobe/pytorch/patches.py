"""Replacements of single attributes that are put in place and taken away together."""
import functools
import importlib
import sys
import threading

import torch

from msprobe import _native
from msprobe._intercept.slots import SharedSlots, Slot, over

_first_run = threading.local()


def _rerun(function):
    """`function`, run again to get back what was not kept: its calls are marked."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        _native.recompute(1)
        try:
            return function(*args, **kwargs)
        finally:
            _native.recompute(-1)

    return run


def in_checkpoint():
    """Whether this thread runs the first forward of a re-entrant checkpoint: without gradients,
    which the second one will have."""
    return getattr(_first_run, "depth", 0) > 0


def _recompute_slots():
    """Where activation checkpointing re-enters the forward: both forms of PyTorch, Megatron's."""
    modules = [importlib.import_module("torch.utils.checkpoint"),
               sys.modules.get("megatron.core.tensor_parallel.random")]
    for module in modules:
        function = getattr(module, "CheckpointFunction", None)
        if function is not None:
            yield Slot(function, "forward", staticmethod(_first(function.forward)))
            yield Slot(function, "backward", staticmethod(_reentrant(function.backward)))
    checkpoint = modules[0]
    frame = getattr(checkpoint, "_CheckpointFrame", None)
    if frame is not None:
        yield Slot(frame, "__init__", _without_early_stop(frame.__init__))
    elif hasattr(checkpoint, "_checkpoint_without_reentrant"):
        yield Slot(checkpoint, "_checkpoint_without_reentrant",
                    _second_run(checkpoint._checkpoint_without_reentrant))


def _first(forward):
    @functools.wraps(forward)
    def run(*args):
        _first_run.depth = getattr(_first_run, "depth", 0) + 1
        try:
            return forward(*args)
        finally:
            _first_run.depth -= 1

    return run


def _reentrant(backward):
    @functools.wraps(backward)
    def run(context, *gradients):
        context.run_function = _rerun(context.run_function)
        return backward(context, *gradients)

    return run


def _without_early_stop(initialise):
    """The re-run goes to the end of the forward, so that every module's call is finished."""

    @functools.wraps(initialise)
    def run(self, recompute_fn, early_stop, *args, **kwargs):
        return initialise(self, _rerun(recompute_fn), False, *args, **kwargs)

    return run


def _second_run(checkpoint):
    """Before 2.0 one function runs both times; the first run is not a re-run."""

    @functools.wraps(checkpoint)
    def run(function, *args, **kwargs):
        again = _rerun(function)
        runs = [0]

        def counted(*inputs, **named):
            runs[0] += 1
            return (function if runs[0] == 1 else again)(*inputs, **named)

        return checkpoint(counted, *args, **kwargs)

    return run


recompute = SharedSlots(_recompute_slots)


# ---- parents of what happens outside the model ----

class _Parent:
    """API calls in the block belong to a pseudo module."""

    def __init__(self, name, session):
        self._name = name
        self._session = session
        self._open = False

    def __enter__(self):
        self._open = self._session.recording
        if self._open:
            _native.open_parent(self._name)
        return self

    def __exit__(self, *error):
        if self._open:
            _native.close_parent(self._name)
        return False


def clip_places(session):
    modules = [torch.nn.utils, importlib.import_module("torch.nn.utils.clip_grad"),
               sys.modules.get("megatron.core.optimizer.clip_grads")]
    known = set()
    for module in modules:
        for name in ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_",
                     "clip_grad_norm_fp32"):
            function = getattr(module, name, None)
            if callable(function) and function not in known:
                known.add(function)
                yield over(module, name, lambda original: _under(original, "clip_grad", session))


def _under(function, parent, session):
    @functools.wraps(function)
    def run(*args, **kwargs):
        with _Parent(parent, session):
            return function(*args, **kwargs)

    return run
