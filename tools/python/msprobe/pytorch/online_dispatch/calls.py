"""One call of an operator: its arguments on the CPU as they were, and its result once more."""
import torch

from msprobe._free_benchmark.attempts import is_out_of_memory
from msprobe.pytorch.online_dispatch import native_forms

_HIGHER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64,
           torch.complex64: torch.complex128}
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Skipped(Exception):
    """Why a call is not checked."""


def tensors_of(value):
    """All tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)


def _mapped(value, change):
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, change) for item in value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return change(value)


def on_host(tensor, copies):
    """The tensor's values on the CPU; `copies`: also where it lies there, because it may change."""
    if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or tensor.is_quantized:
        raise Skipped("tensors that are sparse, quantised or of a class of their own")
    if tensor.device.type == "meta":
        raise Skipped("tensors without values")
    return tensor.detach().to("cpu", copy=copies)


def _kept(value):
    return _argument(value, False)


def _copied(value):
    return _argument(value, True)


def _argument(value, copies):
    if isinstance(value, torch.Tensor):
        return on_host(value, copies)
    if isinstance(value, torch.Generator):
        raise Skipped("generators of random numbers")
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value


def _raised(value):
    if isinstance(value, torch.Tensor):
        return value.to(_HIGHER.get(value.dtype, value.dtype), copy=True)
    if isinstance(value, torch.dtype):
        return _HIGHER.get(value, value)
    return value


def _again(value):
    return value.clone() if isinstance(value, torch.Tensor) else value


def _as_it_is(value):
    return value


class Call:
    """Made before the operator runs, which may write into its arguments. `waits`: it is judged later,
    when others may have done so."""

    __slots__ = ("operator", "number", "inputs", "keywords", "_function", "_threads")

    def __init__(self, operator, number, function, args, kwargs, waits):
        self.operator = operator
        self.number = number
        # What the library knows writes into nothing unless it says so.
        take = _kept if operator.is_native and not operator.writes and not waits else _copied
        self.inputs = _mapped(args, take)
        self.keywords = _mapped(kwargs, take)
        self._function = function
        self._threads = 1 if waits else torch.get_num_threads()

    @property
    def base(self):
        return "%s_%d" % (self.operator.name, self.number)

    def recomputed(self, results):
        """The result by the library's own kernels, without PyTorch; None where it does not know it for
        certain. The dtypes are those of golden()."""
        dtypes = [_HIGHER.get(result.dtype, result.dtype) for result in results]
        return native_forms.recomputed(self.operator.name, self.inputs, self.keywords, results, dtypes,
                                       self._threads)

    def golden(self, results):
        """The result of the CPU: in higher precision, where there is a floating result and the
        operator can; else in the dtypes of the call."""
        floating = any(tensor.is_floating_point() or tensor.is_complex() for tensor in results)
        as_given = _again if self.operator.writes else _as_it_is
        ways = [as_given] if self.operator.keeps_dtypes or not floating else [_raised, as_given]
        # The CPU's own operator, whatever else intercepts those of the training; until it is freed.
        no_modes = torch._C._DisableTorchDispatch()
        try:
            for change in ways:
                try:
                    return self._function(*_mapped(self.inputs, change),
                                          **_mapped(self.keywords, change))
                except Exception as error:
                    if is_out_of_memory(error):
                        raise
                    problem = error
        finally:
            del no_modes
        raise Skipped("operators that the CPU does not run") from problem
