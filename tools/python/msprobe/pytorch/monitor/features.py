"""Features of single layers: how sharp attention is, the spectrum of weights, how alike experts are
and how decided their router is.

Numbers are computed where the tensors lie, in float32 at least, and come to the host once per step.
Nothing here touches the random state of the training.
"""
import contextlib

import torch

from msprobe import _kinds, _monitor

# Of the scores of one head at a time: bounds the memory of long sequences.
_SCORES = 1 << 22
_POWER_ITERATIONS = 3
_EPSILON = 1e-12


# ---- the numbers; each gives a list of tensors without dimensions ----

def attention(query, key):
    """[entropy, softmax_max] of causal attention of one head.

    `query` [rows, d] and `key` [columns, d] in float32. p = softmax(query key^T / sqrt(d)) over the
    columns up to the row's own number; entropy = mean over rows of -sum p ln p, softmax_max = mean
    over rows of max p.
    """
    rows, columns = query.shape[0], key.shape[0]
    scale = query.shape[1] ** -0.5
    height = max(1, _SCORES // max(1, columns))
    entropy = torch.zeros((), device=query.device)
    largest = torch.zeros((), device=query.device)
    for first in range(0, rows, height):
        last = min(first + height, rows)
        seen = min(last, columns)
        scores = (query[first:last] @ key[:seen].t()) * scale
        row = torch.arange(first, last, device=query.device).unsqueeze(1)
        column = torch.arange(seen, device=query.device)
        scores = scores.masked_fill(column > row, float("-inf"))
        shares = torch.log_softmax(scores, dim=-1)
        weights = shares.exp()
        entropy += entropy_of(weights, shares).sum()
        largest += weights.amax(dim=-1).sum()
    return [entropy / rows, largest / rows]


def entropy_of(weights, shares):
    """-sum p ln p over the last axis, 0 where p is; `shares` = ln p. NaN stays NaN."""
    return -torch.where(weights == 0, torch.zeros_like(weights), weights * shares).sum(dim=-1)


def spectrum(weight):
    """[sr, kernel_norm]: Frobenius norm / largest singular value, and that value, estimated by
    power iterations of W^T W. Zeros for what is no matrix."""
    zero = torch.zeros((), device=weight.device)
    if weight.dim() != 2 or weight.numel() == 0:
        return [zero, zero]
    vector = _start_vector(weight.shape[1]).to(weight.device)
    for _ in range(_POWER_ITERATIONS):
        vector = weight.t() @ (weight @ vector)
        vector = vector / torch.linalg.vector_norm(vector).clamp_min(_EPSILON)
    largest = torch.linalg.vector_norm(weight @ vector)
    norm = torch.linalg.vector_norm(weight)
    return [torch.where(largest == 0, zero, norm / largest), largest]


def _start_vector(length):
    """The same in every step and run, so that steps can be compared."""
    generator = torch.Generator().manual_seed(length)
    vector = torch.randn(length, generator=generator)
    return vector / torch.linalg.vector_norm(vector)


def router_weight_similarity(weight):
    """[mean cosine of the weights of two experts]: the longer axis is the hidden one. 0 for fewer
    than two experts."""
    if weight.dim() != 2 or min(weight.shape) < 2:
        return [torch.zeros((), device=weight.device)]
    experts = weight.t() if weight.shape[0] < weight.shape[1] else weight
    experts = experts / torch.linalg.vector_norm(experts, dim=0).clamp_min(_EPSILON)
    count = experts.shape[1]
    # The sum over all pairs is the square of the sum, without the squares.
    pairs = experts.sum(dim=1).square().sum() - experts.square().sum()
    return [pairs / (count * (count - 1))]


def token_expert_entropy(logits):
    """[mean over tokens of -sum p ln p], p = softmax over the experts, the last axis."""
    shares = torch.log_softmax(logits.reshape(-1, logits.shape[-1]), dim=-1)
    return [entropy_of(shares.exp(), shares).mean()]


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
    table = _monitor.ATTENTION_HOOK

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
        return attention(query, key)

    def _one_head(self, tensor):
        batch_axis = 1 - self._sequence_axis
        return _wide(tensor.select(2, 0).select(batch_axis, 0))


class _Linear(_Hook):
    key = "linear_hook"
    table = _monitor.LINEAR_HOOK
    every_micro_step = False

    @staticmethod
    def fits(module):
        return _is_linear(module)

    def numbers(self, module, inputs, output):
        return spectrum(_wide(_needed_weight(module)))


class _RouterWeight(_Hook):
    key = "moe_router_weight_hook"
    table = _monitor.MOE_ROUTER_WEIGHT_HOOK
    every_micro_step = False

    def numbers(self, module, inputs, output):
        return router_weight_similarity(_wide(_needed_weight(module)))


class _RouterLogit(_Hook):
    key = "moe_router_logit_hook"
    table = _monitor.MOE_ROUTER_LOGIT_HOOK

    def numbers(self, module, inputs, output):
        logits = _first_tensor(output)
        if logits is None or logits.dim() == 0 or logits.numel() == 0:
            raise _Unusable("gives no logits")
        return token_expert_entropy(_wide(logits))


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
            row = _monitor.NO_MICRO_STEP
        else:
            return
        inputs = _tensors(args) + _tensors(kwargs.values())
        with torch.no_grad(), _plain_precision(known.module, inputs):
            try:
                numbers = torch.stack(hook.numbers(known.module, inputs, output))
            except _Unusable as why:
                self._features.monitor.say_once(
                    _kinds.LOG_WARNING, "monitor: %s: %s %s: it has no rows in this table"
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
