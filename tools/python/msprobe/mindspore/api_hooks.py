"""Stand-ins for MindSpore's functions, and for functions that are compiled by jit."""
import functools
import importlib
import sys

import mindspore

from msprobe import _native
from msprobe._intercept import functions, runtime
from msprobe._intercept.functions import (ALWAYS_HANDLE, COLLECTIVE, RETURN_HANDLES, WITH_HANDLE,
                                          async_position, load_names)
from msprobe._intercept.slots import Slot, Slots
from msprobe.mindspore import values


def _module(name):
    """A module of MindSpore, or None where this version has none of this name."""
    try:
        return importlib.import_module("mindspore." + name)
    except ImportError:
        return None


class ApiHooks(functions.Functions):
    """All functions of the list that this MindSpore has, and those a user registered."""

    in_place = False  # its compiler reads functions: that it reads them observed in place has not been tried

    def categories(self):
        names = load_names("mindspore")
        yield mindspore.ops, "Functional", names["ops"]
        for tensor_type in values.tensor_types():
            yield tensor_type, "Tensor", names["tensor"]
        for module, prefix, category in (("mint", "Mint", "mint.ops"),
                                         ("mint.nn.functional", "MintFunctional",
                                          "mint.nn.functional")):
            holder = _module(module)
            if holder is not None:
                yield holder, prefix, names[category]

    def further_slots(self):
        names = load_names("mindspore")
        # Functions of comm_func give their result back, those of mint work in their arguments.
        for module, prefix, category, kind in (
                ("communication.comm_func", "Distributed", "communication.comm_func", WITH_HANDLE),
                ("mint.distributed", "MintDistributed", "mint.distributed", COLLECTIVE)):
            holder = _module(module)
            for name in names[category] if holder is not None else ():
                function = getattr(holder, name, None)
                if callable(function) and not isinstance(function, (type, _native.Api)):
                    # batch_isend_irecv and its kin: where the values are depends on the handle.
                    of_call = ALWAYS_HANDLE if name in RETURN_HANDLES else kind
                    yield Slot(holder, name, _native.Api(function, prefix, name, of_call,
                                                          async_position(function)))


class TorchApiHooks(functions.Functions):
    """The functions of a torch whose tensors are MindSpore's, under PyTorch's names."""

    in_place = False

    def categories(self):
        torch = sys.modules["torch"]
        names = load_names("pytorch")
        yield torch.nn.functional, "Functional", names["functional"]
        yield torch.Tensor, "Tensor", [name for name in names["tensor"] if name != "__setitem__"]
        yield torch, "Torch", names["torch"]

    def further_slots(self):
        distributed = sys.modules.get("torch.distributed")
        for name in load_names("pytorch")["distributed"] if distributed is not None else ():
            function = getattr(distributed, name, None)
            if callable(function) and not isinstance(function, (type, _native.Api)):
                kind = ALWAYS_HANDLE if name in RETURN_HANDLES else COLLECTIVE
                yield Slot(distributed, name, _native.Api(function, "Distributed", name, kind,
                                                           async_position(function)))


class JitCalls(Slots):
    """Calls of functions that jit compiles: the compiler finds MindSpore's own functions, and the
    call as a whole is recorded as Jit.{name}."""

    def __init__(self):
        super().__init__(self._executors)

    def _executors(self):
        api = _module("graph.api") or _module("common.api")  # the latter: before 2.9
        for name in ("_JitExecutor", "_MindsporeFunctionExecutor"):
            executor = getattr(api, name, None)
            if executor is not None:
                yield Slot(executor, "__call__", self._recording(executor.__call__))

    @staticmethod
    def _recording(original):
        @functools.wraps(original)
        def call(executor, *args, **kwargs):
            def run(*inputs, **named):
                with runtime.away():
                    return original(executor, *inputs, **named)

            return _native.Api(run, "Jit", _name(executor))(*args, **kwargs)

        return call


def _name(executor):
    owner = getattr(executor, "obj", None)
    if isinstance(owner, mindspore.nn.Cell):
        return type(owner).__name__
    return getattr(getattr(executor, "fn", None), "__name__", "function")
