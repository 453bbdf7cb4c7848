"""Calls of aten operators in the form in which the library can compute them by itself: under the name
and with the arguments of the function that they compute."""
import json

import torch

from msprobe import _native

# In aten their arguments stand otherwise than in torch and torch.nn.functional.
_OTHER_FORMS = {
    "_softmax": lambda args: ("softmax", args[:2]),
    "_log_softmax": lambda args: ("log_softmax", args[:2]),
    "embedding": lambda args: ("embedding", (args[1], args[0])),
    "convolution": lambda args: _convolution(*args),
}
# Write their running statistics without saying so.
_WRITES_SILENTLY = frozenset(("batch_norm", "instance_norm"))


def _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    dims = weight.dim() - 2
    if transposed:
        return ("conv_transpose%dd" % dims,
                (x, weight, bias, stride, padding, output_padding, groups, dilation))
    return "conv%dd" % dims, (x, weight, bias, stride, padding, dilation, groups)


def is_known(name):
    """Whether some calls of an operator can be computed."""
    return name not in _WRITES_SILENTLY and (
        name in _OTHER_FORMS or _native.can_recompute(name.encode("utf-8")))


class _Unspeakable(Exception):
    """An argument that has no form."""


def _described(value, tensors):
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"type": "torch.Tensor", "dtype": str(value.dtype), "shape": list(value.shape),
                "data_name": str(len(tensors) - 1)}
    if isinstance(value, (bool, int, float, str)):
        return {"type": type(value).__name__, "value": value}
    if isinstance(value, (list, tuple)):
        return [_described(item, tensors) for item in value]
    if isinstance(value, torch.dtype):
        return {"type": "torch.dtype", "value": str(value)}
    raise _Unspeakable(type(value).__name__)


def recomputed(name, args, kwargs, results, dtypes, threads):
    """The results of a call, computed from its arguments in float64, as tensors of `dtypes`; None where
    the library does not know all of them for certain. All tensors lie on the CPU; `results` are
    those of the device, in order."""
    try:
        if name in _OTHER_FORMS:
            name, args = _OTHER_FORMS[name](args)
        tensors = []
        call = {"input_args": _described(args, tensors),
                "input_kwargs": {key: _described(value, tensors) for key, value in kwargs.items()},
                "output": _described(results, tensors)}
        text = json.dumps(call)
    except (_Unspeakable, TypeError, ValueError, IndexError):
        return None
    goldens = [torch.empty(result.shape, dtype=dtype) for result, dtype in zip(results, dtypes)]
    try:
        known = _native.recompute_operator(name.encode("utf-8"), text.encode("utf-8"), tensors,
                                           goldens, threads)
    except (RuntimeError, ValueError):  # such as too little memory: PyTorch may need less
        return None
    return goldens if known else None
