"""Level L2: the runtime of the accelerator dumps the kernels of one call by itself."""
import torch

from msprobe import _native
from msprobe._intercept.slots import over
from msprobe._intercept.runtime import guarded


def _synchronise():
    for name in ("npu", "cuda"):
        device = getattr(torch, name, None)
        if device is not None and device.is_available():
            device.synchronize()
            return


class KernelDump:
    """Switches the runtime's dump on around the chosen call of a step, or around its backward."""

    def __init__(self, session, apis):
        self._session = session
        self._apis = apis
        self._places = []
        self._generation = -1
        self._calls = 0
        self._on = False
        # The list of this level is one name; that of a backward stands beside its forward.
        names = session.settings.get("list") or [""]
        name = next((name for name in names if name.endswith(".backward")), names[0])
        self._base, _, rest = name.rpartition(".")[0].rpartition(".")
        self._number = int(rest) if rest.isdigit() else -1
        self._backward = name.endswith(".backward")

    def install(self):
        if self._places:
            return
        found = self._apis.find(self._base)
        if not found:
            self._session.say_once(_native.LOG_WARNING,
                                   "no function here is recorded as %s: no kernel is dumped"
                                   % self._base)
        for holder, attribute, _ in found:
            self._places.append(over(holder, attribute, self._around))
        for place in self._places:
            place.put()

    def remove(self):
        for place in self._places:
            place.take()
        self._places = []
        self._end()

    def _around(self, function):
        def call(*args, **kwargs):
            if not self._is_chosen():
                return function(*args, **kwargs)
            if self._backward:
                result = function(*args, **kwargs)
                self._watch(result)
                return result
            self._begin()
            try:
                return function(*args, **kwargs)
            finally:
                self._end()

        return call

    def _is_chosen(self):
        if self._generation != self._session.generation:
            self._generation = self._session.generation
            self._calls = 0
        number = self._calls
        self._calls += 1
        return number == self._number and self._session.recording

    @guarded
    def _watch(self, result):
        while isinstance(result, (list, tuple)) and result:
            result = result[0]
        if isinstance(result, torch.Tensor) and result.grad_fn is not None:
            result.register_hook(lambda gradient: self._begin())
            result.grad_fn.register_hook(lambda *gradients: self._end())

    def _begin(self):
        try:
            _synchronise()
            _native.kernel_dump_begin()
            self._on = True
        except Exception as error:  # no runtime here that can
            self._session.say_once(_native.LOG_WARNING, "no kernel is dumped: %s" % error)

    @guarded
    def _end(self):
        if self._on:
            self._on = False
            _synchronise()
            _native.kernel_dump_end()
