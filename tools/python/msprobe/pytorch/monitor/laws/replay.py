"""Every so many steps ("replay_steps") one is run again: the same inputs, random numbers, buffers and gradients of the outputs have to give
the same outputs and the same gradients of the parameters, to the bit.

What is repeated are the calls of the outermost module and their backward passes, before the update, with nothing of it left behind:
generators, buffers and plain attributes of modules are what they were. The parameters' own gradients are not touched. Where a repeat
differs, it is repeated once more: two repeats that agree against the first are a corrupted step or a module that remembers its calls.
"""
import random
import sys

import torch

from msprobe import _native
from msprobe._intercept.runtime import own_work
from msprobe.pytorch import distributed

_PLAIN = (int, float, bool)


def _clone(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: _clone(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_clone(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return _tensors(vars(value)) if hasattr(value, "__dataclass_fields__") else []


def _same(one, other):
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if torch.equal(one, other):
        return True
    return bool(((one == other) | ((one != one) & (other != other))).all())


class _State:
    """Generators, buffers and plain attributes, to be put back."""

    def __init__(self, module):
        self._module = module
        self._random = random.getstate()
        self._numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
        self._buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
        self._plain = [(part, {name: value for name, value in vars(part).items() if isinstance(value, _PLAIN)}) for part in module.modules()]

    def put(self):
        random.setstate(self._random)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        with torch.no_grad():
            for buffer, value in self._buffers:
                if not _same(buffer, value):
                    buffer.copy_(value)
        for part, values in self._plain:
            for name, value in values.items():
                if vars(part).get(name) is not value:
                    vars(part)[name] = value


class _Call:
    __slots__ = ("module", "args", "kwargs", "state", "outputs", "gradients")


class Replay:
    def __init__(self, laws):
        self._laws = laws
        self._report = laws.report
        self._every = int(laws.monitor.settings.get("replay_steps") or 0) if self._report.wants("replay") else 0
        self._roots = []
        self._handles = []
        self._calls = []
        self._open = None

    def watch(self, model):
        if self._every:
            if self._laws.has_shards:
                self._report.leave_out("replay", "shards: a repeat would gather them")
            else:
                self._roots.append(model)

    def start(self):
        if self._every and not self._handles:
            for root in self._roots:
                self._handles.append(_before_calls(root, self._begin))
                self._handles.append(root.register_forward_hook(self._end))

    def stop(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._calls = []

    def _is_due(self):
        return self._laws.step % self._every == 0 and torch.is_grad_enabled()

    def _begin(self, module, args, kwargs):
        if self._open is not None or not self._is_due() or _is_inside():
            return
        try:
            with own_work():
                call = self._open = _Call()
                call.module, call.args, call.kwargs, call.state = module, _clone(args), _clone(kwargs), _State(module)
                for slot in self._laws.incoming.slots.values():
                    if slot.digests is None:
                        slot.digests = []
        except Exception as error:  # training goes on
            self._open = None
            self._laws.monitor.failed("replay", error)

    def _end(self, module, _args, output):
        call, self._open = self._open, None
        if call is None or call.module is not module:
            return
        try:
            with own_work():
                outputs = [tensor for tensor in _tensors(output) if tensor.requires_grad]
                call.outputs = [tensor.detach().clone() for tensor in outputs]
                call.gradients = [None] * len(outputs)
                for index, tensor in enumerate(outputs):
                    tensor.register_hook(_keeper(call.gradients, index))
                self._calls.append(call)
        except Exception as error:  # training goes on
            self._laws.monitor.failed("replay", error)

    # ---- before the update ----

    def before(self, step, part):
        calls, self._calls = [call for call in self._calls if any(gradient is not None for gradient in call.gradients)], []
        seen = {key: slot.digests for key, slot in self._laws.incoming.slots.items()}
        for slot in self._laws.incoming.slots.values():
            slot.digests = None
        if not calls:
            return
        now = _State(calls[0].module)
        try:
            with own_work():
                self._laws.incoming.paused = True
                for number, call in enumerate(calls):
                    self._repeat(step, number, len(calls), call, seen)
        finally:
            self._laws.incoming.paused = False
            now.put()

    def _repeat(self, step, number, count, call, seen):
        first = self._run(call)
        outputs, gradients = first
        self._report.checked("replay")
        wrong = [("", "an output of the model", out, again) for out, again in zip(call.outputs, outputs) if not _same(out, again)]
        for key, again in gradients.items():
            slot = self._laws.incoming.slots[key]
            held = seen.get(key) or []
            if again is not None and len(held) == count and not _same(held[number], again):
                wrong.append((slot.name, "its gradient", held[number], again))
        if not wrong:
            return
        agree = all(_same(one, other) for one, other in zip(self._run(call)[0], outputs))
        for name, what, one, other in wrong[:4]:
            far = float((one.double() - other.double()).abs().max()) if one.shape == other.shape else float("nan")
            self._report.broken(step, "replay", name, far, 0.0, "%s is not the same when the step is run again; two repeats %s"
                                % (what, "agree: the step was disturbed, or a module remembers its calls" if agree
                                   else "differ, too: an operator is not deterministic"))

    def _run(self, call):
        """(outputs, {id of a parameter: gradient}) of one call and its backward pass."""
        call.state.put()
        module = call.module
        if type(module).__name__ in ("DistributedDataParallel", "DataParallel") and distributed.world_size() > 1:
            module = module.module
        with torch.enable_grad():
            outputs = [tensor for tensor in _tensors(module(*_clone(call.args), **_clone(call.kwargs))) if tensor.requires_grad]
            parameters = [slot.tensor for slot in self._laws.incoming.slots.values() if slot.tensor.requires_grad]
            pairs = [(output, gradient) for output, gradient in zip(outputs, call.gradients) if gradient is not None]
            found = torch.autograd.grad([output for output, _ in pairs], parameters, [gradient for _, gradient in pairs], allow_unused=True)
        return [output.detach() for output in outputs], {id(tensor): gradient for tensor, gradient in zip(parameters, found)}

    def after(self, step, part):
        """Nothing is left to do: the update itself is not repeated."""


def _keeper(gradients, index):
    def keep(gradient):
        gradients[index] = gradient.detach().clone() if gradients[index] is None else gradients[index] + gradient.detach()
    return keep


def _is_inside():
    before = _native.inside(True)
    _native.inside(before)
    return before


def _before_calls(root, begin):
    try:
        return root.register_forward_pre_hook(lambda module, args, kwargs: begin(module, args, kwargs), with_kwargs=True)
    except TypeError:  # before PyTorch 2.0
        return root.register_forward_pre_hook(lambda module, args: begin(module, args, {}))
