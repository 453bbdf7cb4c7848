"""Which optimizer of a training framework stands around one of PyTorch's.

DeepSpeed and Megatron give PyTorch's optimizer flat pieces or copies of the model's parameters and put an object of their own
around it, which has the parameters themselves. No module and no optimizer of PyTorch leads to that object, so it is sought among
all that live.
"""
import gc

import torch

from msprobe.pytorch.monitor import optimizers

_DEPTH = 8  # a chain of optimizers, each with a dictionary of lists of lists of parameters, is the deepest that frameworks have


def around(found, parameters):
    """The optimizers of frameworks around these of PyTorch, the outermost of each, with what is within:
    [(wrapper, [optimizer])]. parameters: {id} of the model's, of which a wrapper has to hold one."""
    wanted = {id(optimizer): optimizer for optimizer in found}
    wrappers = {}
    if not wanted:
        return []
    for candidate in gc.get_objects():
        if type(candidate).__name__ in optimizers.WRAPPERS:
            inner = [wanted[key] for key in _within(candidate) if key in wanted]
            if inner and _holds(vars(candidate), parameters, _DEPTH):
                wrappers[id(candidate)] = (candidate, inner)
    nested = set().union(*(_within(wrapper) for wrapper, _ in wrappers.values())) if wrappers else set()
    return [pair for key, pair in wrappers.items() if key not in nested]


def _within(optimizer):
    """{id} of the optimizers inside this one, at any depth."""
    seen, stack = set(), [optimizer]
    while stack:
        fields = getattr(stack.pop(), "__dict__", {})
        for inner in [fields.get("optimizer")] + list(fields.get("chained_optimizers") or []):
            if inner is not None and id(inner) not in seen:
                seen.add(id(inner))
                stack.append(inner)
    return seen


def _holds(value, parameters, depth):
    """Whether one of the parameters is in this value, or in the optimizers it chains."""
    if isinstance(value, torch.Tensor):
        return id(value) in parameters
    if not depth:
        return False
    if isinstance(value, dict):
        return any(_holds(item, parameters, depth - 1) for pair in value.items() for item in pair)
    if isinstance(value, (list, tuple)):
        return any(_holds(item, parameters, depth - 1) for item in value)
    if type(value).__name__ in optimizers.WRAPPERS:
        return _holds(vars(value), parameters, depth - 1)
    return False
