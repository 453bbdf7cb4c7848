"""Gradients that a framework exchanges in buckets: seen before the exchange begins.

Megatron's classes and FSDP's function are found among what the script has imported.
"""
import importlib
import sys

from msprobe import _native
from msprobe._intercept.runtime import own_work
from msprobe._intercept.slots import Slot
from msprobe.pytorch.monitor import optimizers

_FSDP_PREFIX = "_fsdp_wrapped_module"


def find(monitor, watched):
    """What sees unreduced gradients of this model's framework; None: nothing special does."""
    if any(parameter.full_name.startswith(_FSDP_PREFIX) for parameter in watched.parameters):
        runtime = _imported("torch.distributed.fsdp._runtime_utils")
        if hasattr(runtime, "_post_backward_hook"):
            return FlatParameters(monitor, watched, runtime)
    for module_name, class_name in (
            ("megatron.core.distributed.param_and_grad_buffer", "_ParamAndGradBucketGroup"),
            ("megatron.core.distributed.param_and_grad_buffer", "Bucket"),
            ("megatron.core.distributed.grad_buffer", "Bucket")):
        bucket = getattr(sys.modules.get(module_name), class_name, None)
        if hasattr(bucket, "start_grad_sync"):
            return Buckets(monitor, watched, bucket)
    return None


def _imported(name):
    try:
        return importlib.import_module(name)
    except Exception:  # missing, or broken in this environment: the script does not use it then
        return None


class _BeforeExchange:
    """A replaced function that sees gradients first. Rows go by parameter."""

    def __init__(self, monitor, watched, holder, name):
        self.monitor = monitor
        self._watched = watched
        self._active = False
        self._slots = {parameter.tensor: monitor.engine.slot(
            _native.TABLE_GRAD_UNREDUCED, parameter.name, "pre_grad")
            for parameter in watched.parameters}
        original = getattr(holder, name)

        def seen_first(*args, **kwargs):
            if self._active:
                self._see(*args, **kwargs)
            return original(*args, **kwargs)

        self._place = Slot(holder, name, seen_first)

    def start(self):
        if not self._active:
            self._active = True
            self._place.put()

    def stop(self):
        if self._active:
            self._active = False
            self._place.take()

    def _see(self, *args, **kwargs):
        try:
            with own_work():
                self.see(*args, **kwargs)
        except Exception as error:  # training goes on
            self.monitor.failed("gradients before the exchange", error)

    def see(self, *args, **kwargs):
        raise NotImplementedError

    def put(self, tensor, gradient):
        slot = self._slots.get(tensor)
        if slot is not None and gradient is not None:
            self.monitor.engine.values(slot, _native.NO_MICRO_STEP, gradient)


class Buckets(_BeforeExchange):
    """Megatron: a bucket, or a group of them, starts its exchange when all of it is ready."""

    def __init__(self, monitor, watched, bucket_type):
        super().__init__(monitor, watched, bucket_type, "start_grad_sync")

    def see(self, bucket, *_args, **_kwargs):
        ready = set()
        for part in getattr(bucket, "buckets", None) or [bucket]:
            ready.update(getattr(part, "params", ()) or getattr(part, "params_list", ()))
        for parameter in self._watched.parameters:
            if parameter.tensor in ready:
                self.put(parameter.tensor, optimizers.own_gradient(
                    parameter.tensor, self._watched.main_gradients))


class FlatParameters(_BeforeExchange):
    """FSDP: the gradient of a flat parameter is that of its parameters one behind the other."""

    def __init__(self, monitor, watched, runtime):
        super().__init__(monitor, watched, runtime, "_post_backward_hook")
        # While a unit is gathered its parameters are views: names and sizes are kept, not tensors.
        self._named = {_plain(parameter.full_name): (
            monitor.engine.slot(_native.TABLE_GRAD_UNREDUCED, parameter.name, "pre_grad"),
            parameter.tensor.shape) for parameter in watched.parameters}

    def see(self, _state, handle, *_args, **_kwargs):
        flat = handle.flat_param
        gradient = flat.grad
        if gradient is None:
            return
        start = 0
        for name, shape in zip(flat._fqns, flat._shapes):
            size = 1
            for extent in shape:
                size *= extent
            part = gradient.reshape(-1)[start:start + size]
            start += size
            for known, (slot, _) in self._named.items():
                if known == name or known.endswith("." + name):
                    self.monitor.engine.values(slot, _native.NO_MICRO_STEP, part.view(shape))
                    break


def _plain(name):
    return name.replace(_FSDP_PREFIX + ".", "")
