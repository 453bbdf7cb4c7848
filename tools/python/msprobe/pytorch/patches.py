"""Replacements of single attributes that are put in place and taken away together."""
import functools
import importlib
import sys

import torch

from msprobe import _native
from msprobe._apis import Place


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


def recompute_places():
    """Where activation checkpointing re-enters the forward: both forms of PyTorch, Megatron's."""
    modules = [importlib.import_module("torch.utils.checkpoint"),
               sys.modules.get("megatron.core.tensor_parallel.random")]
    for module in modules:
        function = getattr(module, "CheckpointFunction", None)
        if function is not None:
            yield Place(function, "backward", staticmethod(_reentrant(function.backward)))
    checkpoint = modules[0]
    frame = getattr(checkpoint, "_CheckpointFrame", None)
    if frame is not None:
        yield Place(frame, "__init__", _without_early_stop(frame.__init__))
    elif hasattr(checkpoint, "_checkpoint_without_reentrant"):
        yield Place(checkpoint, "_checkpoint_without_reentrant",
                    _second_run(checkpoint._checkpoint_without_reentrant))


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
    for module in modules:
        for name in ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_",
                     "clip_grad_norm_fp32"):
            function = getattr(module, name, None)
            if callable(function):
                yield Place(module, name, _under(function, "clip_grad", session))


def _under(function, parent, session):
    @functools.wraps(function)
    def run(*args, **kwargs):
        with _Parent(parent, session):
            return function(*args, **kwargs)

    return run


class OptimizerWatch:
    """Tells when an optimizer's step begins and ends, whatever wraps it."""

    def __init__(self, on_begin, on_end):
        self._on_begin = on_begin
        self._on_end = on_end
        self._handles = []
        self._place = None

    def put(self):
        if self._handles or self._place is not None:
            return
        optimizer = importlib.import_module("torch.optim.optimizer")
        if hasattr(optimizer, "register_optimizer_step_pre_hook"):
            self._handles = [
                optimizer.register_optimizer_step_pre_hook(lambda *_: self._on_begin()),
                optimizer.register_optimizer_step_post_hook(lambda *_: self._on_end())]
            return
        # Before 2.0 every step runs under a profiler label of this form.
        profiler = importlib.import_module("torch.autograd.profiler")
        original = profiler.record_function
        watch = self

        class Labelled(original):
            def __init__(self, name, *args, **kwargs):
                super().__init__(name, *args, **kwargs)
                self._of_optimizer = name.startswith("Optimizer.step#")

            def __enter__(self):
                entered = super().__enter__()
                if self._of_optimizer:
                    watch._on_begin()
                return entered

            def __exit__(self, *error):
                if self._of_optimizer:
                    watch._on_end()
                return super().__exit__(*error)

        self._place = Place(profiler, "record_function", Labelled)
        self._place.put()

    def take(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._place is not None:
            self._place.take()
            self._place = None
