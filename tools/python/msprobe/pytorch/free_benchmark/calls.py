"""One call and its second run."""
import contextlib

import torch

from msprobe import _native
from msprobe._free_benchmark.attempts import Skipped
from msprobe._intercept.runtime import own_work
from msprobe.pytorch.free_benchmark.perturbation import (mapped, on_host, position_of,
                                                         tensors_in)

# Statistics that a function updates beside its result: where they stand. No gradient passes through.
_STATISTICS = {"Functional.batch_norm": (1, 2), "Functional.instance_norm": (1, 2),
               "Torch.batch_norm": (3, 4), "Torch.instance_norm": (3, 4)}
_STATISTICS_NAMES = ("running_mean", "running_var")
# These write into their weights where max_norm, at this place, is given.
_RENORMS = {"Functional.embedding": 3, "Functional.embedding_bag": 3}
# Functions that write into arguments their names do not tell of, as was found at their first call.
_writers = set()
# What these add to a tensor is memory as it was found; of the others the extension knows.
_RESIZES = ("resize_", "resize_as_")


def free_memory():
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _versions(tensors):
    """How often each was written, or None where that is not counted (inference mode)."""
    try:
        return [tensor._version for tensor in tensors]
    except RuntimeError:
        return None


def _copy(tensor):
    return tensor.detach().clone()


def _renorms(function, args, kwargs):
    place = _RENORMS.get(function)
    if place is None:
        return False
    return (args[place] if len(args) > place else kwargs.get("max_norm")) is not None


class RandomState:
    """Of the host, and of the devices that the tensors are on."""

    def __init__(self, tensors):
        self._host = torch.get_rng_state()
        self._devices = []
        for device in {tensor.device for tensor in tensors if not on_host(tensor)}:
            module = getattr(torch, device.type, None)
            if hasattr(module, "get_rng_state"):
                self._devices.append((module, device, module.get_rng_state(device)))

    def device_moved(self):
        """Whether a device has drawn random numbers since."""
        return any(not torch.equal(state, module.get_rng_state(device))
                   for module, device, state in self._devices)

    def put(self):
        torch.set_rng_state(self._host)
        for module, device, state in self._devices:
            module.set_rng_state(state, device)


@contextlib.contextmanager
def second_run(state, autocasts, gradients=False):
    """In this block a call runs once more: unseen, with the random numbers it had, and everything as
    it was afterwards."""
    with own_work():
        after = RandomState([])
        after._devices = [(module, device, module.get_rng_state(device))
                          for module, device, _ in state._devices]
        state.put()
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(torch.enable_grad() if gradients else torch.no_grad())
                if not autocasts:
                    for kind in ("cpu", "cuda"):
                        if _casts(kind):
                            stack.enter_context(torch.autocast(kind, enabled=False))
                yield
        finally:
            after.put()


def _cast_dtype(kind):
    return torch.get_autocast_cpu_dtype() if kind == "cpu" else torch.get_autocast_gpu_dtype()


def _casts(kind):
    return torch.is_autocast_cpu_enabled() if kind == "cpu" else torch.is_autocast_enabled()


class Call:
    """A call before it is made: copies of what it may write, and the state of random numbers."""

    def __init__(self, settings, function, in_place, args, kwargs):
        self._settings = settings
        self._function = function
        self.args = args
        self.kwargs = kwargs
        self._autocasts = {kind: _cast_dtype(kind) for kind in ("cpu", "cuda") if _casts(kind)}
        name = function.rpartition(".")[2]
        if name in _RESIZES or _native.gives_raw_memory(name):
            raise Skipped("its result is not initialised")
        if position_of(args) is None:
            raise Skipped("no argument is a floating tensor")
        with own_work():
            self.state = RandomState(tensors_in(args, kwargs))
            self._tensors = self._set_statistics_aside(function)
            self._versions = _versions(self._tensors)
            self.writes = (in_place or function in _writers or bool(kwargs.get("inplace")) or
                           kwargs.get("out") is not None or _renorms(function, args, kwargs) or
                           self._versions is None)
            if self.writes:
                with torch.no_grad():
                    self.args, self.kwargs = mapped(args, _copy), mapped(kwargs, _copy)

    def _set_statistics_aside(self, function):
        """The call will update them: later runs have copies. Gives all other tensors."""
        places = _STATISTICS.get(function)
        if places is None:
            return tensors_in(self.args, self.kwargs)
        others = []

        def aside(value, is_statistic):
            if is_statistic:
                return mapped(value, _copy)
            others.extend(tensors_in(value))
            return value

        with torch.no_grad():
            self.args = tuple(aside(value, place in places) for place, value in enumerate(self.args))
            self.kwargs = {name: aside(value, name in _STATISTICS_NAMES)
                           for name, value in self.kwargs.items()}
        return others

    @contextlib.contextmanager
    def autocasting(self):
        """Autocast as the call had it, for a run in its backward, which stands in another block or in none. Casts
        of weights are not kept: the training makes its own."""
        with contextlib.ExitStack() as stack:
            for kind in ("cpu", "cuda"):
                if kind in self._autocasts:
                    stack.enter_context(torch.autocast(kind, dtype=self._autocasts[kind], cache_enabled=False))
                elif _casts(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            yield

    def made(self):
        """After the call: raises Skipped where what it was given is there no more."""
        if not self.writes and _versions(self._tensors) != self._versions:
            _writers.add(self._function)
            raise Skipped("it writes into its arguments, which was not known before its first call")
        if (self._settings.mode in ("improve_precision", "to_cpu") and not self._settings.compat and
                self.state.device_moved()):
            raise Skipped("it draws random numbers of the device, which are others on the CPU and in "
                          "another dtype")

    def unchanged_since(self):
        """Whether the arguments still hold what the call was given."""
        return self.writes or _versions(self._tensors) == self._versions

    def leave_graph(self):
        """From here on the arguments are known by their values alone, which keep no graph alive."""
        with own_work():
            self.args, self.kwargs, self._tensors = mapped((self.args, self.kwargs, self._tensors), torch.Tensor.detach)

    def again(self, original, perturbation):
        """The result of the second run."""
        kwargs = dict(self.kwargs)
        if "inplace" in kwargs and not self.writes:
            kwargs["inplace"] = False
        with second_run(self.state, self._settings.mode not in ("improve_precision", "to_cpu")):
            changed = perturbation.applied(self.args, kwargs)
            if changed is None:
                raise Skipped("nothing to change")
            return original(*changed[0], **changed[1])
