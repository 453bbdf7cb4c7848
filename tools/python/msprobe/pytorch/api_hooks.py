"""Stand-ins for PyTorch's functions."""
import sys

import torch
import torch.nn.functional

from msprobe import _apis, _native
from msprobe._apis import (ALWAYS_HANDLE, COLLECTIVE, RETURN_HANDLES, Place, async_position,
                           load_names)


class ApiHooks(_apis.ApiHooks):
    """All functions of the list that this PyTorch has, and those a user registered."""

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
        # linalg.norm counts with norm; a file.function of mindspeed keeps both.
        return dotted if prefix == "MindSpeed" else attribute

    def further_places(self):
        distributed = sys.modules.get("torch.distributed")
        c10d = sys.modules.get("torch.distributed.distributed_c10d")
        if distributed is None or c10d is None or not distributed.is_available():
            return
        for name in load_names("pytorch")["distributed"]:
            function = getattr(distributed, name, None) or getattr(c10d, name, None)
            if not callable(function) or isinstance(function, _native.Api):
                continue
            kind = ALWAYS_HANDLE if name in RETURN_HANDLES else COLLECTIVE
            api = _native.Api(function, "Distributed", name, kind, async_position(function))
            for holder in (distributed, c10d):
                if getattr(holder, name, None) is function:
                    yield Place(holder, name, api)

    def install(self):
        if self.installed:
            return
        super().install()
        self._place_of_script = Place(torch.jit, "script", self._script)
        self._place_of_script.put()

    def remove(self):
        if self.installed:
            self._place_of_script.take()
        super().remove()

    def _script(self, *args, **kwargs):
        """torch.jit.script compiles what it finds under a function's name: the originals."""
        script = self._place_of_script.original
        with self.away():
            return script(*args, **kwargs)
