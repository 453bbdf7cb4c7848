"""Features of single layers: how sharp attention is, the spectrum of weights, how alike experts are
and how decided their router is.

The hooks that the settings name, at the modules that they name. Numbers are computed where the
tensors lie and come to the host once per step.
"""
import contextlib

import torch

from msprobe import _native
from msprobe.pytorch.monitor import feature_numbers


# ---- which tensors of a call they are of ----

def _tensors(values):
    return [value for value in values if isinstance(value, torch.Tensor)]


def _first_tensor(output):
    found = _tensors(output if isinstance(output, (list, tuple)) else (output,))
    return found[0] if found else None


def _weight(module):
    """The matrix of a linear layer or of a router."""
    for name in ("weight", "wg"):
        weight = getattr(module, name, None)
        if isinstance(weight, torch.Tensor):
            return weight
    return None


def _is_linear(module):
    weight = _weight(module)
    return (weight is not None and weight.dim() == 2
            and "embedding" not in type(module).__name__.lower())


def _wide(tensor):
    tensor = tensor.detach()
    if type(tensor).__name__ == "DTensor":
        tensor = tensor.to_local()
    return tensor if tensor.dtype == torch.float64 else tensor.float()


class _Unusable(Exception):
    """Why a call has no such numbers."""


class _Hook:
    """One kind of features. `numbers` of a call are as many as the table has columns."""

    key = ""
    table = 0
    every_micro_step = True

    def __init__(self, settings):
        self.takes_all = settings["l2_targets"].get(self.key) == []

    @staticmethod
    def fits(module):
        """Whether a module is meant when no module is named."""
        return False


class _Attention(_Hook):
    key = "attention_hook"
    table = _native.TABLE_ATTENTION_HOOK

    def __init__(self, settings):
        super().__init__(settings)
        self._sequence_axis = settings["sa_order"].split(",").index("s")

    def numbers(self, module, inputs, output):
        if len(inputs) < 2:
            raise _Unusable("has no query and key among its inputs")
        query, key = inputs[:2]
        if query.dim() != 4 or key.dim() != 4 or query.shape[-1] != key.shape[-1]:
            raise _Unusable("has a query %s and a key %s; four axes as in \"sa_order\" are needed"
                            % (list(query.shape), list(key.shape)))
        query, key = (self._one_head(tensor) for tensor in (query, key))
        if 0 in query.shape or 0 in key.shape:
            raise _Unusable("has no elements in its query and key")
        return feature_numbers.attention(query, key)

    def _one_head(self, tensor):
        batch_axis = 1 - self._sequence_axis
        return _wide(tensor.select(2, 0).select(batch_axis, 0))


class _Linear(_Hook):
    key = "linear_hook"
    table = _native.TABLE_LINEAR_HOOK
    every_micro_step = False

    @staticmethod
    def fits(module):
        return _is_linear(module)

    def numbers(self, module, inputs, output):
        return feature_numbers.spectrum(_wide(_needed_weight(module)))


class _RouterWeight(_Hook):
    key = "moe_router_weight_hook"
    table = _native.TABLE_MOE_ROUTER_WEIGHT_HOOK
    every_micro_step = False

    def numbers(self, module, inputs, output):
        return feature_numbers.router_weight_similarity(_wide(_needed_weight(module)))


class _RouterLogit(_Hook):
    key = "moe_router_logit_hook"
    table = _native.TABLE_MOE_ROUTER_LOGIT_HOOK

    def numbers(self, module, inputs, output):
        logits = _first_tensor(output)
        if logits is None or logits.dim() == 0 or logits.numel() == 0:
            raise _Unusable("gives no logits")
        return feature_numbers.token_expert_entropy(_wide(logits))


def _needed_weight(module):
    weight = _weight(module)
    if weight is None:
        raise _Unusable("has neither \"weight\" nor \"wg\"")
    return weight


# ---- what runs in the training ----

class LayerFeature:
    """One hook at one module."""

    __slots__ = ("_features", "_hook", "_slot", "_name")

    def __init__(self, features, hook, slot, name):
        self._features = features
        self._hook = hook
        self._slot = slot
        self._name = name

    def record(self, known, micro_step, args, kwargs, output):
        """After a call of the module."""
        hook = self._hook
        if hook.every_micro_step:
            row = micro_step
        elif micro_step + 1 == known.micro_steps:
            row = _native.NO_MICRO_STEP
        else:
            return
        inputs = _tensors(args) + _tensors(kwargs.values())
        with torch.no_grad(), _plain_precision(known.module, inputs):
            try:
                numbers = torch.stack(hook.numbers(known.module, inputs, output))
            except _Unusable as why:
                self._features.monitor.say_once(
                    _native.LOG_WARNING, "%s: %s %s: it has no rows in this table"
                    % (hook.key, self._name, why), subject=(hook.key, self._name))
                return
        self._features.pending.append((self._slot, row, numbers))


def _plain_precision(module, inputs):
    """Autocast would compute the products in half precision."""
    tensor = inputs[0] if inputs else _weight(module)
    return (contextlib.nullcontext() if tensor is None
            else torch.autocast(tensor.device.type, enabled=False))


class LayerFeatures:
    """All hooks that the settings name."""

    def __init__(self, monitor):
        settings = monitor.settings
        self.monitor = monitor
        self.pending = []
        kinds = (_Attention, _Linear, _RouterWeight, _RouterLogit)
        self._hooks = [kind(settings) for kind in kinds if kind.key in settings["l2_targets"]]

    @staticmethod
    def wanted(settings):
        return settings["recording_l2_features"] and bool(settings["l2_targets"])

    def of(self, stage, path, module):
        """What is to be recorded of a module."""
        engine = self.monitor.engine
        found = []
        for hook in self._hooks:
            if hook.takes_all and not hook.fits(module):
                continue
            name = engine.name_feature_module(hook.table, stage, path)
            if name is not None:
                found.append(LayerFeature(self, hook, engine.slot(hook.table, name, hook.key),
                                          name))
        return tuple(found)

    def drop(self):
        """What was recorded so far is not wanted."""
        self.pending = []

    def finish_step(self):
        """Numbers come to the host in one copy per device, into the rows of the step."""
        pending, self.pending = self.pending, []
        by_device = {}
        for _, _, numbers in pending:
            by_device.setdefault((numbers.device, numbers.dtype), []).append(numbers)
        values = {kind: iter(torch.cat(tensors).cpu().tolist())
                  for kind, tensors in by_device.items()}
        for slot, row, numbers in pending:
            source = values[numbers.device, numbers.dtype]
            self.monitor.engine.features(slot, row, [next(source) for _ in range(len(numbers))])
