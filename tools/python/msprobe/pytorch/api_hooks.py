"""Stand-ins for PyTorch's functions."""
import sys

import torch
import torch.nn.functional

from msprobe import _native
from msprobe._intercept import functions
from msprobe._intercept.collectives import RecordedCollective, StandIn
from msprobe._intercept.functions import (ALWAYS_HANDLE, COLLECTIVE, RETURN_HANDLES,
                                          async_position, load_names)
from msprobe.pytorch import custom_operators


class ApiHooks(functions.Functions):
    """All functions of the list that this PyTorch has, those a user registered, and operators of the
    namespaces that the configuration names."""

    def __init__(self):
        super().__init__()
        self._namespaces = ()

    def record_operators(self, namespaces):
        """From the next install on."""
        if list(namespaces) != list(self._namespaces):
            self._namespaces = namespaces
            self._slots = None

    def categories(self):
        names = load_names("pytorch")
        yield torch.nn.functional, "Functional", names["functional"]
        yield torch.Tensor, "Tensor", names["tensor"]
        yield torch, "Torch", names["torch"]
        yield torch._VF, "VF", names["_VF"]
        npu = sys.modules.get("torch_npu")
        if npu is not None:
            yield npu, "NPU", names["torch_npu"]
            yield getattr(torch.ops, "npu", npu), "NPU", names["torch_npu"]
            if hasattr(npu, "distributed"):
                yield npu.distributed, "Distributed", names["npu_distributed"]
        mindspeed = sys.modules.get("mindspeed.ops")
        if mindspeed is not None:
            yield mindspeed, "MindSpeed", names["mindspeed"]

    @staticmethod
    def recorded_name(prefix, dotted, attribute):
        # linalg.norm counts with norm; a file.function of mindspeed and atb.operator of torch_npu keep both.
        return dotted if prefix == "MindSpeed" or prefix == "NPU" and dotted.startswith("atb.") else attribute

    def further_slots(self):
        yield from custom_operators.slots(self._namespaces)
        distributed = sys.modules.get("torch.distributed")
        c10d = sys.modules.get("torch.distributed.distributed_c10d")
        if distributed is None or c10d is None or not distributed.is_available():
            return
        for name in load_names("pytorch")["distributed"]:
            stand_in = StandIn.of(name, (distributed, c10d))
            if stand_in is not None:
                yield RecordedCollective(stand_in, _recorder_of(name))


def _recorder_of(name):
    kind = ALWAYS_HANDLE if name in RETURN_HANDLES else COLLECTIVE
    return lambda function: _native.Api(function, "Distributed", name, kind,
                                        async_position(function))
