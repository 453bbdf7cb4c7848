"""What MindSpore's objects are to the extension."""
import os
import sys
import types
import zlib

import mindspore
import numpy

from msprobe import _native, _plain_kinds
from msprobe._intercept import runtime
from msprobe._intercept.runtime import report

# The names under which mindspore has its dtypes. bfloat16 and what is smaller has no counterpart
# in numpy: its values come as float32.
_DTYPES = ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
           "float16", "float32", "float64", "bfloat16", "complex64", "complex128", "float8_e4m3fn",
           "float8_e5m2", "hifloat8", "qint4x2", "int4")
_THROUGH_FLOAT32 = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "hifloat8")


def _lazy_tensor_class():
    """Tensors that are still being computed have a class of their own in some versions."""
    module = sys.modules.get("mindspore.common._stub_tensor")
    return getattr(module, "StubTensor", None)


def tensor_types():
    lazy = _lazy_tensor_class()
    return (mindspore.Tensor,) if lazy is None else (mindspore.Tensor, lazy)


def torch_on_mindspore():
    """Whether the torch of this process is one whose tensors are MindSpore's."""
    torch_tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return isinstance(torch_tensor, type) and issubclass(torch_tensor, mindspore.Tensor)


def dtypes():
    """{dtype: name} of all dtypes of this MindSpore."""
    named = ((getattr(mindspore, name, None), name) for name in _DTYPES)
    return {dtype: name for dtype, name in named if dtype is not None}


_queue = None
_names = dtypes()
_dtype_types = tuple({type(dtype) for dtype in _names})
_through_float32 = [dtype for dtype, name in _names.items() if name in _THROUGH_FLOAT32]


def is_floating(tensor):
    """Whether a gradient can reach it."""
    return _names.get(tensor.dtype, "").startswith(("float", "bfloat", "hifloat", "complex"))


def _executor():
    """MindSpore's queue of operations, or None where this version has none of this name."""
    for module in ("mindspore.graph.api", "mindspore.common.api"):
        executor = getattr(sys.modules.get(module), "_pynative_executor", None)
        if executor is not None:
            return executor
    return None


def gradients_are_recorded():
    """Whether operations make nodes; True where this version does not tell."""
    return all(getattr(_queue, name)() for name in ("grad_flag", "enable_grad")
               if hasattr(_queue, name))


def is_differentiating():
    """Whether a function runs whose gradients are computed next; True where this version does not tell."""
    return _queue is None or not hasattr(_queue, "grad_flag") or _queue.grad_flag()


def _point_to_point():
    return getattr(sys.modules.get("mindspore.mint.distributed"), "P2POp", None)


def classify(value_type):
    """The kind of a type; asked once for each."""
    if issubclass(value_type, tensor_types() + (HostTensor,)):
        return _native.KIND_OTHER_TENSOR
    if issubclass(value_type, _dtype_types):
        return _native.KIND_DTYPE
    operation = _point_to_point()
    if operation is not None and issubclass(value_type, operation):
        return _native.KIND_SPECIAL
    kind = _plain_kinds.kind_of_numpy(value_type)
    if kind is None:
        kind = _plain_kinds.kind_of_plain(value_type)
    return _native.KIND_NULL if kind is None else kind


def describe_tensor(tensor):
    """For the extension: (type, dtype, code, shape, requires_grad, array)."""
    if isinstance(tensor, HostTensor):
        return tensor.described
    array, code = None, _native.DTYPE_UNKNOWN
    try:
        if wait():
            array = array_of(tensor)
            code = _native.DTYPE_CODES.get(array.dtype.name, _native.DTYPE_UNKNOWN)
    except Exception as error:  # not initialised, or of a kind that the host does not know
        report("asnumpy", error)
    return "mindspore.Tensor", str(tensor.dtype), code, tuple(tensor.shape), -1, array


def wait_for_own():
    """Raises what has failed in operations since the last wait()."""
    if _queue is not None:
        _queue.sync()


def wait():
    """Operations run later than they are called. What fails in one is the training's error: it is
    raised there as soon as possible, as it would have been where the training asks for a value.
    Whether all went well."""
    if _queue is not None:
        try:
            _queue.sync()
        except Exception as error:
            runtime.owed.append(error)
            return False
    return True


class HostTensor:
    """The values of a tensor on the host, in its own dtype where numpy has it: bfloat16 is one there in
    newer versions. For the extension; the caller has waited for what computes them."""

    def __init__(self, tensor):
        array = _in_own_dtype(tensor)
        self.array = array_of(tensor) if array is None else numpy.ascontiguousarray(array)
        code = _native.DTYPE_CODES.get(self.array.dtype.name, _native.DTYPE_UNKNOWN)
        self.described = ("mindspore.Tensor", str(tensor.dtype), code, tuple(tensor.shape), -1, self.array)


def array_of(tensor):
    """Its values; of what numpy does not know by itself, as float32. They are widened on the host: MindSpore
    2.10 keeps some memory of every call of its own astype()."""
    array = _in_own_dtype(tensor)
    if array is None:
        array = tensor.astype(mindspore.float32).asnumpy()
    elif tensor.dtype in _through_float32:
        array = array.astype(numpy.float32)
    return numpy.ascontiguousarray(array)


def _in_own_dtype(tensor):
    """Its values; None in a version whose numpy does not know its dtype."""
    try:
        return tensor.asnumpy()
    except TypeError:
        if tensor.dtype in _through_float32:
            return None
        raise


def plain(operation):
    """A point-to-point operation as plain objects."""
    described = {"class_type": "mindspore.mint.distributed.P2POp", "tensor": operation.tensor,
                 "op": getattr(operation.op, "__name__", str(operation.op)),
                 "peer": operation.peer, "tag": operation.tag}
    ranks = _ranks(operation.group)
    if ranks is not None:
        described["group_id"] = "%08x" % (zlib.crc32(str(ranks).encode()) & 0xFFFFFFFF)
    return described


def _ranks(group):
    try:
        from mindspore.communication import get_process_group_ranks
        return list(get_process_group_ranks(group) if group else get_process_group_ranks())
    except Exception:  # not there, or the group is gone
        return None


def configure():
    """Once per process: gives the extension what it needs to describe MindSpore's values."""
    _native.configure("classify", classify)
    _native.configure("plain", plain)
    _native.configure("other_tensor", describe_tensor)
    _native.configure("method_type", types.MethodType)
    _native.configure("owed", runtime.owed)
    global _queue
    _queue = _executor()
    _native.configure("grad_enabled", gradients_are_recorded)
    for name, code in _native.DTYPE_CODES.items():
        _native.dtype(name, name, code)  # arrays of numpy
    _native.hide_folder(os.fsencode(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep))
