"""Tensors of collectives and point-to-point calls, before and after."""
import json
import re
import sys

import torch

from msprobe import _kinds, _monitor
from msprobe._apis import Place
from msprobe._pending import PendingOutputs
from msprobe.pytorch.monitor import stacks

_FUNCTIONS = ("send", "recv", "isend", "irecv", "batch_isend_irecv", "broadcast", "all_reduce",
              "reduce", "scatter", "reduce_scatter", "_reduce_scatter_base",
              "reduce_scatter_tensor", "all_gather", "gather", "_all_gather_base",
              "all_gather_into_tensor")
_STACKS_FILE = "../communication_stacks.json"


class _Stand:
    """A function's stand-in. It is equal to the function: PyTorch compares them by that."""

    def __init__(self, function, name, communication):
        self._function = function
        self._name = name
        self._communication = communication
        self.__name__ = name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args, **kwargs):
        return self._communication.call(self._function, self._name, args, kwargs)

    def __eq__(self, other):
        return other is self or other is self._function

    def __hash__(self):
        return hash(self._function)


class Communication(_monitor.Collector):
    """Functions of torch.distributed are replaced while a step is measured."""

    def __init__(self, monitor):
        super().__init__(monitor)
        settings = monitor.settings["cc_distribution"]
        self._before = settings.get("cc_pre_hook", False)
        self._only_stacks = settings.get("cc_log_only", False)
        self._lines = [re.compile(line) for line in settings.get("cc_codeline") or ()]
        self._slots = {}
        self._places = []
        self._stacks = {}
        self._inside = False
        self._pending = PendingOutputs(self._after)
        self._active = False
        self._told = False

    @staticmethod
    def wanted(settings):
        return bool(settings["cc_distribution"].get("enable"))

    # ---- in place ----

    def start(self):
        if self._active:
            return
        distributed = sys.modules.get("torch.distributed")
        c10d = sys.modules.get("torch.distributed.distributed_c10d")
        if c10d is None or not distributed.is_initialized():
            self.monitor.say_once(_kinds.LOG_WARNING,
                                  "monitor: communication is watched from the first step on that "
                                  "begins with torch.distributed initialised")
            return
        self._active = True
        for name in _FUNCTIONS:
            function = getattr(distributed, name, None)
            if not callable(function):
                continue
            stand = _Stand(function, name, self)
            for holder in (distributed, c10d):
                if getattr(holder, name, None) is function:
                    self._places.append(Place(holder, name, stand))
        for place in self._places:
            place.put()

    def stop(self):
        if not self._active:
            return
        self._active = False
        for place in reversed(self._places):
            if vars(place.holder).get(place.name) is place.replacement:
                place.take()
        self._places = []
        self._pending.remove()

    def before_update(self, watched):
        if self._only_stacks and self._stacks and not self._told:
            self._tell_stacks()

    def finish_step(self):
        self._pending.finish()

    # ---- one call ----

    def call(self, function, name, args, kwargs):
        if not self._active or self._inside:
            return function(*args, **kwargs)
        wanted = self._begin(name, args, kwargs)
        self._inside = True
        try:
            result = function(*args, **kwargs)
        finally:
            self._inside = False
        if wanted:
            self._end(name, args, kwargs, result)
        return result

    @_monitor.guarded
    def _begin(self, name, args, kwargs):
        """Whether this call is measured."""
        if self._only_stacks or self._lines:
            stack = stacks.lines_of_caller()
            if self._lines and not any(line.search(";".join(stack)) for line in self._lines):
                return False
            if self._only_stacks:
                known = self._stacks.setdefault(name, [])
                if stack not in known:
                    known.append(stack)
                return False
        if self._before:
            self._measure(name, "pre", args, kwargs)
        return True

    @_monitor.guarded
    def _end(self, name, args, kwargs, result):
        handles = result if isinstance(result, (list, tuple)) else [result]
        if any(hasattr(handle, "wait") for handle in handles):
            self._pending.add(result, name, args, kwargs)
        else:
            self._after(name, args, kwargs)

    @_monitor.guarded
    def _after(self, name, args, kwargs):
        self._measure(name, "post", args, kwargs)

    def _measure(self, name, when, args, kwargs):
        index = 0
        with torch.no_grad():
            for value in tuple(args) + tuple((kwargs or {}).values()):
                tensors = _tensors(value)
                if tensors is None:
                    continue
                slot = self._slot(name, "%s_%d" % (when, index))
                for tensor in tensors:
                    self.engine.accumulate(slot, tensor)
                index += 1

    def _slot(self, name, task):
        key = (name, task)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = self.engine.slot(_monitor.OTHER, "0:" + name, task)
        return slot

    # ---- cc_log_only ----

    @_monitor.guarded
    def _tell_stacks(self):
        self._told = True
        if self.monitor.place.rank != self.monitor.first_selected_rank():
            return
        text = json.dumps(self._stacks, indent=2)
        self.engine.write_file(_STACKS_FILE, text)
        self.monitor.say_once(_kinds.LOG_INFO, "monitor: where collectives are called: "
                              + json.dumps(self._stacks))


def _tensors(value):
    """The tensors of an argument: a stack of them where they fit; None when it is something else.
    """
    if isinstance(value, torch.Tensor):
        return [_on_host(value)]
    if not isinstance(value, (list, tuple)) or not value:
        return None
    tensors = [getattr(item, "tensor", item) for item in value]
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        return None
    first = tensors[0]
    if all(tensor.shape == first.shape and tensor.dtype == first.dtype
           and tensor.device == first.device for tensor in tensors):
        return [_on_host(torch.stack([tensor.detach() for tensor in tensors]))]
    return [_on_host(tensor) for tensor in tensors]


def _on_host(tensor):
    tensor = tensor.detach()
    return tensor if tensor.device.type in ("cpu", "meta") else tensor.cpu()
