"""Tensors of collectives and point-to-point calls, before and after."""
import json
import sys

import torch

from msprobe import _monitor, _native
from msprobe._intercept.collectives import PendingOutputs, StandIn
from msprobe.pytorch.monitor import stacks

_FUNCTIONS = ("send", "recv", "isend", "irecv", "batch_isend_irecv", "broadcast", "all_reduce",
              "reduce", "scatter", "reduce_scatter", "_reduce_scatter_base",
              "reduce_scatter_tensor", "all_gather", "gather", "_all_gather_base",
              "all_gather_into_tensor")
_STACKS_FILE = "../communication_stacks.json"


class Communication(_monitor.Collector):
    """Functions of torch.distributed are seen while a step is measured: an observer of
    _intercept.collectives."""

    def __init__(self, monitor):
        super().__init__(monitor)
        settings = monitor.settings["cc_distribution"]
        self._before = settings.get("cc_pre_hook", False)
        self._only_stacks = settings.get("cc_log_only", False)
        self._by_line = bool(settings.get("cc_codeline"))
        self._slots = {}
        self._stand_ins = []
        self._stacks = {}
        self._depth = 0
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
            self.monitor.say_once(_native.LOG_WARNING,
                                  "communication is watched from the first step on that "
                                  "begins with torch.distributed initialised")
            return
        self._active = True
        self._stand_ins = [StandIn.of(name, (distributed, c10d)) for name in _FUNCTIONS]
        self._stand_ins = [stand_in for stand_in in self._stand_ins if stand_in is not None]
        for stand_in in self._stand_ins:
            stand_in.observe(self)

    def stop(self):
        if not self._active:
            return
        self._active = False
        for stand_in in self._stand_ins:
            stand_in.leave(self)
        self._stand_ins = []
        self._pending.remove()

    def before_update(self, watched):
        if self._only_stacks and self._stacks and not self._told:
            self._tell_stacks()

    def finish_step(self):
        self._pending.finish()

    # ---- one call ----

    def begin(self, name, args, kwargs):
        """For _intercept.collectives: whether the end of this call is measured. Calls inside it are
        not."""
        self._depth += 1
        if self._depth == 1:
            self._wanted = bool(self._begin(name, args, kwargs))
        return True

    def end(self, name, args, kwargs, result):
        self._depth -= 1
        if self._depth == 0 and self._wanted:
            self._end(name, args, kwargs, result)

    def failed(self):
        self._depth -= 1

    @_monitor.guarded
    def _begin(self, name, args, kwargs):
        """Whether this call is measured."""
        if self._only_stacks or self._by_line:
            stack = stacks.lines_of_caller()
            if self._by_line and not self.monitor.engine.selects_stack(";".join(stack)):
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
            slot = self._slots[key] = self.engine.slot(_native.TABLE_OTHER, "0:" + name, task)
        return slot

    # ---- cc_log_only ----

    @_monitor.guarded
    def _tell_stacks(self):
        self._told = True
        if self.monitor.place.rank != self.monitor.first_selected_rank():
            return
        text = json.dumps(self._stacks, indent=2)
        self.engine.write_file(_STACKS_FILE, text)
        self.monitor.say_once(_native.LOG_INFO, "where collectives are called: "
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
