"""What autograd hands to each parameter between two steps of its optimizer: whether it finds zero there, and the sum of it.

A hook of the parameter sees a gradient before it is added. What is held at that moment tells whether the step began at zero; the elements
that samples.py picks are added up beside the training. Gradients that are asked for by torch.autograd.grad pass the hook but are added
nowhere: what is held does not change then, and neither does the sum.
"""
import torch

from msprobe import _native
from msprobe.pytorch.monitor import optimizers
from msprobe.pytorch.monitor.laws.samples import is_plain, picked


class Slot:
    """One parameter between two steps."""

    __slots__ = ("tensor", "name", "total", "size", "count", "started", "stale", "pending", "changed", "known", "digests", "by_hand")

    def __init__(self, tensor, name):
        self.tensor = tensor
        self.name = name
        self.known = False    # a step of it has been seen: what is held is no longer of an unknown past
        self.digests = None   # list while a step is going to be repeated
        self.pending = None
        self.by_hand = False  # the script adds gradients up elsewhere, for a master, and drops them here
        self.next_step()

    def next_step(self):
        self.total = self.size = self.stale = self.changed = None
        self.count = 0
        self.started = False


class Incoming:
    def __init__(self, monitor, main_gradients, alone):
        self._monitor = monitor
        self._main = main_gradients
        self._alone = alone  # no other process adds to what is held
        self.slots = {}
        self._handles = []
        self.backward_seen = False
        self.paused = False   # a step is repeated: nothing of it counts

    def watch(self, named):
        for tensor, name in named:
            if id(tensor) not in self.slots and tensor.requires_grad and is_plain(tensor) and not hasattr(tensor, "_local_tensor"):
                self.slots[id(tensor)] = Slot(tensor, name)

    def start(self):
        if not self._handles:
            for slot in self.slots.values():
                slot.pending = None
                slot.known = False
                slot.next_step()
                if slot.tensor.requires_grad:
                    self._handles.append(slot.tensor.register_hook(self._hook(slot)))

    def stop(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _hook(self, slot):
        monitor = self._monitor

        def incoming(gradient):
            if self.paused:
                return
            before = _native.inside(True)
            try:
                with torch.no_grad():
                    self._take(slot, gradient)
            except Exception as error:  # training goes on
                monitor.failed("laws of the gradient of %s" % slot.name, error)
            finally:
                _native.inside(before)

        return incoming

    def _take(self, slot, gradient):
        self.backward_seen = True
        held = optimizers.own_gradient(slot.tensor, self._main)
        self._commit(slot, held)
        if held is None or held.layout == torch.strided and not bool(picked(held).any()):
            if not slot.by_hand:
                slot.next_step()
            slot.started = True
        elif not slot.started:
            slot.started = True
            slot.stale = picked(held).clone() if slot.known and held.layout == torch.strided else None
        elif slot.total is not None:
            self._compare(slot, held)
        if slot.digests is not None:
            slot.digests.append(gradient.detach().clone())
        if gradient.layout != torch.strided:
            slot.total = None
            slot.count = -1
            return
        part = picked(gradient)
        part = part.clone() if part.dtype in (torch.float32, torch.float64) else part.float()
        slot.pending = (part, id(held) if held is not None else None, held._version if held is not None else 0)

    def _commit(self, slot, held):
        if slot.pending is None:
            return
        part, before, version = slot.pending
        slot.pending = None
        if held is None and not slot.by_hand or held is not None and id(held) == before and held._version == version or slot.count < 0:
            return
        if slot.total is None:
            slot.total, slot.size = part, part.abs()
        else:
            slot.total = slot.total + part
            slot.size = slot.size + part.abs()
        slot.count += 1

    def _compare(self, slot, held):
        """Between two backward passes of a step: whether what is held is still their sum."""
        now, sum_ = picked(held).double(), slot.total.double()
        square = float((sum_ * sum_).sum())
        factor = float((now * sum_).sum()) / square if square > 0 else 1.0
        if abs(factor - 1) > 0.02 and float((now - factor * sum_).abs().max()) <= 1e-2 * float(now.abs().max()):
            slot.changed = factor

    def finish(self):
        """Before an update: the last gradients are added up."""
        for slot in self.slots.values():
            if slot.pending is not None:
                self._commit(slot, optimizers.own_gradient(slot.tensor, self._main))

    def step_ends(self, tensors):
        """Those of an optimizer that has stepped begin anew."""
        for tensor in tensors:
            slot = self.slots.get(id(tensor))
            if slot is not None:
                slot.next_step()
                slot.known = True
        self.backward_seen = False

    def scaled(self, tensors, factor):
        """A clip that was seen has multiplied what is held."""
        for tensor in tensors:
            slot = self.slots.get(id(tensor))
            if slot is None:
                continue
            self._commit(slot, optimizers.own_gradient(slot.tensor, self._main))
            if slot.total is not None:
                slot.total = slot.total * factor
                slot.size = slot.size * factor
