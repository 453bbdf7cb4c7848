"""Arguments of a call, changed a little. Values are changed on the host."""
import mindspore
import numpy

from msprobe._free_benchmark import structures
from msprobe._free_benchmark.structures import perturbed
from msprobe.mindspore import values

_HALVES = (mindspore.float16, mindspore.bfloat16)
_FLOATS = _HALVES + (mindspore.float32, mindspore.float64)


def mapped(value, change):
    """The structure of lists, tuples and dicts with change(tensor) in place of every tensor."""
    return structures.mapped(value, values.tensor_types(), change)


def tensors_in(*given):
    found = []
    mapped(given, lambda tensor: found.append(tensor) or tensor)
    return found


def is_floating(tensor):
    return tensor.dtype in _FLOATS


def position_of(args):
    """Of the argument to change: the first that is a floating tensor or holds one."""
    for position, value in enumerate(args):
        if any(map(is_floating, tensors_in(value))):
            return position
    return None


def of_array(array, like):
    """A tensor of these values; a Parameter where `like` is one."""
    tensor = mindspore.Tensor(array)
    if isinstance(like, mindspore.Parameter):
        return mindspore.Parameter(tensor, name=like.name, requires_grad=like.requires_grad)
    return tensor


class _Memory:
    """Of an array, as the extension asks a tensor for it."""

    def __init__(self, array):
        self._array = array

    def data_ptr(self):
        return self._array.ctypes.data

    def numel(self):
        return self._array.size

    def element_size(self):
        return self._array.itemsize


class Perturbation:
    """Changes arguments as the settings say."""

    def __init__(self, settings):
        self._mode = settings.mode
        self._ulps = settings.noise_ulps
        self._all = settings.all_inputs
        self._leaves_brain_bits = settings.compat and settings.mode == "bit_noise"

    def applied(self, args, kwargs):
        """(args, kwargs) of the second run, or None where there is nothing to change."""
        if self._mode == "no_change":
            return args, kwargs
        if self._mode == "improve_precision":
            return self._changed(args, kwargs, _widened, changes_all=True)
        return self._changed(args, kwargs, self._noisy, self._all)

    @staticmethod
    def _changed(args, kwargs, change, changes_all):
        """With the first tensor of the argument to change in another version, or with all of them."""
        changed = []

        def of_tensor(tensor):
            if (changed and not changes_all) or not is_floating(tensor):
                return tensor
            other = change(tensor)
            if other is None:
                return tensor
            changed.append(True)
            return other

        if changes_all:
            args, kwargs = mapped(args, of_tensor), mapped(kwargs, of_tensor)
        else:
            position = position_of(args)
            if position is not None:
                args = (args[:position] + (mapped(args[position], of_tensor),) +
                        args[position + 1:])
        return (args, kwargs) if changed else None

    def _noisy(self, tensor):
        if self._leaves_brain_bits and tensor.dtype == mindspore.bfloat16:
            return None
        given = values.HostTensor(tensor)
        if str(given.array.dtype) != str(tensor.dtype).lower():
            return None  # a numpy that has no bfloat16
        out = numpy.empty(given.array.shape, given.array.dtype)
        return of_array(out, tensor) if perturbed(given, _Memory(out), self._mode, self._ulps) else None


def _widened(tensor):
    return tensor.astype(mindspore.float32) if tensor.dtype in _HALVES else None
