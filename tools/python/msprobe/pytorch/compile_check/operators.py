"""What an operator is given and what it leaves, and how its result stands by the operator's rule."""
import torch

from msprobe.pytorch.compile_check import rules
from msprobe.pytorch.compile_check.bounded import Bounded, NoRule, distance
from msprobe.pytorch.compile_check.rows import NOT_CHECKED, RIGHT, WRONG

LOOSE = "the bound is as large as the values"
# Operators of a wrapper that compute nothing.
PLAIN = frozenset("""empty_strided empty as_strided view reshape permute expand detach alias _reshape_alias t transpose select slice
unsqueeze squeeze resize_ set_ new_empty_strided is_pinned _local_scalar_dense item lift""".split())


def tensors_in(item):
    if isinstance(item, torch.Tensor):
        return [item]
    if isinstance(item, dict):
        return [tensor for part in item.values() for tensor in tensors_in(part)]
    if isinstance(item, (list, tuple)):
        return [tensor for part in item for tensor in tensors_in(part)]
    return []


def labels_of(output, outputs):
    output = output or "result"
    return [output] if len(outputs) == 1 else ["%s.%d" % (output, index) for index in range(len(outputs))]


def written_arguments(function, args, kwargs):
    return [tensor for _, tensor in named_written(function, args, kwargs)]


def named_written(function, args, kwargs):
    """[(name of an argument, tensor)] of what the operator writes."""
    written = []
    for index, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = kwargs.get(argument.name, args[index] if index < len(args) else None)
            written.extend((argument.name, tensor) for tensor in tensors_in(value))
    return written


def bounded_arguments(exact, args, kwargs, copied):
    def bounded(item):
        if isinstance(item, torch.Tensor):
            kept = item.clone() if any(item is other for other in copied) else item
            return exact(kept)
        if isinstance(item, (list, tuple)):
            return [bounded(part) for part in item]
        return item
    return [bounded(item) for item in args], {key: bounded(item) for key, item in kwargs.items()}


def first_dtype(outputs):
    floating = [item.dtype for item in outputs if item.dtype.is_floating_point]
    return floating[0] if floating else outputs[0].dtype if outputs else torch.float32


def how_wrong(far, count):
    if far.share >= 1:
        return ""
    if far.share == 0:
        return "no element is within its bound"
    return "%d of %d elements beyond their bounds" % (round((1 - far.share) * count), count)


def expected_of(function, args, kwargs, dtype):
    """([bounded results], "") by the operator's rule, or (None, why there are none). `args`, `kwargs`: bounded_arguments."""
    try:
        made = rules.apply(rules.functional(function), args, kwargs, dtype)
    except NoRule as error:
        return None, str(error)
    return [part for part in (made if isinstance(made, (tuple, list)) else [made]) if part is not None], ""


def judged(item, expected, function, why):
    """(verdict, Distance or None, reason) of one output. `expected`: a Bounded; otherwise `why` says what there is in its place."""
    if not isinstance(expected, Bounded) or expected.value.numel() != item.numel():
        return NOT_CHECKED, None, why or "nothing is known of what it was given"
    far = distance(item.reshape(expected.value.shape), expected)
    if far.ratio > 1:
        return WRONG, far, how_wrong(far, item.numel())
    if far.loose:
        return NOT_CHECKED, far, LOOSE
    measured = not rules.has_rule(rules.functional(function))
    return RIGHT, far, "bound measured: no rule for %s" % rules.name_of(rules.functional(function)) if measured else ""
