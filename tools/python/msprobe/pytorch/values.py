"""What PyTorch's objects are to the extension."""
import functools
import os
import sys
import types
import zlib

import torch
from torch.utils import _python_dispatch

from msprobe import _native, _plain_kinds
from msprobe._intercept import compilers


def _distributed_types():
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    names = ("ProcessGroup", "ReduceOp", "P2POp")
    return {name: getattr(distributed, name) for name in names if hasattr(distributed, name)}


def classify(value_type):
    """The kind of a type; asked once for each."""
    if issubclass(value_type, torch.Tensor):
        return _native.KIND_TENSOR
    kind = _plain_kinds.kind_of_numpy(value_type)
    if kind is not None:
        return kind
    if issubclass(value_type, torch.Size):
        return _native.KIND_SIZE
    if value_type is torch.dtype:
        return _native.KIND_DTYPE
    if value_type is torch.device:
        return _native.KIND_DEVICE
    if value_type is torch.memory_format:
        return _native.KIND_MEMORY_FORMAT
    special = _distributed_types()
    if issubclass(value_type, tuple(special.values())):
        return _native.KIND_SPECIAL
    if value_type.__name__ == "RedOpType":
        return _native.KIND_SPECIAL
    kind = _plain_kinds.kind_of_plain(value_type)
    return _native.KIND_NULL if kind is None else kind


def plain(value):
    """A process group, reduction or point-to-point operation as plain objects."""
    known = _distributed_types()
    if isinstance(value, known.get("ProcessGroup", ())):
        return _group(value)
    if isinstance(value, known.get("P2POp", ())):
        operation = getattr(value.op, "__name__", str(value.op))
        return {"class_type": "torch.distributed.P2POp", "tensor": value.tensor, "op": operation,
                "peer": value.peer, "tag": value.tag,
                "group_id": _group(value.group).get("group_id")}
    return {"type": "torch.distributed.ReduceOp", "value": _reduction(value)}


def _reduction(value):
    """Its name: the text of the object itself holds an address on PyTorch before 2."""
    kinds = getattr(type(value), "RedOpType", type(value))
    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"):
        if hasattr(kinds, name) and value == getattr(kinds, name):
            return "RedOpType." + name
    text = str(value)
    return type(value).__name__ if " at 0x" in text else text


def _group(group):
    described = {"type": "torch.ProcessGroup"}
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    try:
        if group is None:
            group = c10d._get_default_group()
        if hasattr(c10d, "get_process_group_ranks"):
            ranks = list(c10d.get_process_group_ranks(group))
        else:
            ranks = list(c10d._pg_group_ranks[group].keys())
        described["group_ranks"] = ranks
        described["group_id"] = "%08x" % (zlib.crc32(str(ranks).encode()) & 0xFFFFFFFF)
    except Exception:  # a group that is gone: its type is all that is known
        pass
    return described


def dtypes():
    """All dtypes of this PyTorch."""
    return {value for value in vars(torch).values() if isinstance(value, torch.dtype)}


def _attend_modes():
    """Modes that see every function of the framework (TorchFunctionMode, the default device) or every operator (TorchDispatchMode) must
    not see what the capture reads of tensors and computes itself."""
    c = torch._C
    names = ("_len_torch_function_stack", "_pop_torch_function_stack", "_push_on_torch_function_stack",
             "_is_torch_function_mode_enabled", "_len_torch_dispatch_stack")
    if not all(hasattr(c, name) for name in names):
        return  # before 1.13 there are none that could be put aside
    if hasattr(c, "_set_torch_function_mode"):
        # 1.13: one object stands for all of them.
        stand_in = torch.overrides._TorchFunctionStackMode

        def functions_aside():
            enabled = c._is_torch_function_mode_enabled()
            c._set_torch_function_mode(None)
            return enabled

        def functions_back(enabled):
            if enabled:
                c._set_torch_function_mode(stand_in())
    else:
        def functions_aside():
            return [c._pop_torch_function_stack() for _ in range(c._len_torch_function_stack())]

        def functions_back(modes):
            for mode in reversed(modes):
                c._push_on_torch_function_stack(mode)

    def operators_aside():
        """Those of tracers stay: the values that are read belong to them."""
        return [] if compilers.in_tracing_mode() else [_python_dispatch._pop_mode() for _ in range(c._len_torch_dispatch_stack())]

    def back(modes):
        functions_back(modes[0])
        for mode in reversed(modes[1]):
            _python_dispatch._push_mode(mode)

    _native.configure("modes_aside", lambda: (functions_aside(), operators_aside()))
    _native.configure("modes_back", back)
    _native.configure("modes_below", c._len_torch_dispatch_stack)
    _native.configure("modes_enabled", c._is_torch_function_mode_enabled)


@functools.lru_cache(maxsize=None)
def configure():
    """Done once per process: gives the extension what it needs to describe PyTorch's values."""
    compilers.attend()
    _attend_modes()
    _native.configure("classify", classify)
    _native.configure("plain", plain)
    _native.configure("grad_enabled", torch.is_grad_enabled)
    _native.configure("strided", torch.strided)
    _native.configure("method_type", types.MethodType)
    if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        _native.exchange_tensors(torch.Tensor.__dlpack_c_exchange_api__, (torch.Tensor, torch.nn.Parameter))
    for dtype in dtypes():
        name = str(dtype).rpartition(".")[2]
        _native.dtype(dtype, str(dtype), _native.DTYPE_CODES.get(name, _native.DTYPE_UNKNOWN))
    _native.hide_folder(os.fsencode(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep))
