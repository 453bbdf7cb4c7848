"""Lists, tuples and dicts of tensors, as arguments and results are made of."""

from msprobe import _native

_MOST_DEPTH = 10


def perturbed(tensor, out, mode, ulps):
    """Writes the elements of `tensor`, changed as the configuration's mode says, to `out`; whether any was."""
    modes = {"add_noise": _native.PERTURB_ULP_NOISE if ulps else _native.PERTURB_ADD_NOISE,
             "bit_noise": _native.PERTURB_BIT_NOISE,
             "change_value": _native.PERTURB_CHANGE_VALUE}
    return _native.perturb(tensor, out, modes[mode], ulps or 1)


def mapped(value, tensor_types, change, depth=0):
    """The structure of lists, tuples and dicts with change(tensor) in place of every tensor."""
    if isinstance(value, tensor_types):
        return change(value)
    if depth > _MOST_DEPTH:
        raise ValueError("arguments are nested deeper than %d levels" % _MOST_DEPTH)
    if isinstance(value, dict):
        return {key: mapped(item, tensor_types, change, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [mapped(item, tensor_types, change, depth + 1) for item in value]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*items)
        return items if type(value) is list else tuple(items)
    return value


def paired(left, right, tensor_types, pairs):
    """Appends (tensor of `left`, its counterpart in `right`) of all; False where their forms differ,
    or hold anything but tensors."""
    if isinstance(left, tensor_types):
        pairs.append((left, right))
        return isinstance(right, tensor_types) and left.shape == right.shape
    if isinstance(left, dict):
        return (isinstance(right, dict) and left.keys() == right.keys() and
                all(paired(value, right[key], tensor_types, pairs) for key, value in left.items()))
    if isinstance(left, (list, tuple)):
        return (isinstance(right, (list, tuple)) and len(left) == len(right) and
                all(paired(value, other, tensor_types, pairs) for value, other in zip(left, right)))
    return False
